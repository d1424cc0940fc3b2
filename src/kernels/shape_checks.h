// Shape checks for operations with many operands, shared by all backends.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace fathom {

// Each check aborts with the name of the operation if its contract in backend.h is broken.
void CheckRope(const RopeRows& rope, std::int64_t rows, std::int64_t head_dim);
void CheckWeight(const Weight& w);
void CheckAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                    Matrix<const Bf16> out);
void CheckAppend(Matrix<const Bf16> keys, const BatchView& batch, const WindowCache& cache);
void CheckCompress(const CompressorInput& input, const BatchView& batch,
                   const CompressorCache& cache);
void CheckIndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<const std::uint8_t> out);
// For SelectRows and BestRows.
void CheckIndexInput(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                     const BatchView& batch, const CompressorCache& cache);
// Every row given for a token must be visible to the token.
void CheckRowRanges(std::span<const RowRange> ranges, const BatchView& batch,
                    const CompressorCache& cache, Matrix<const ScoredRow> best);
void CheckCopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                   Matrix<const std::uint8_t> out);

}  // namespace fathom
