// Shape checks for operations with many operands, shared by all backends.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace fathom {

// Each check aborts with the name of the operation if its contract in backend.h is broken.
void CheckFillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                       Matrix<const float> cos, Matrix<const float> sin);
void CheckEmbed(const BatchView& batch, Matrix<const Bf16> table, Matrix<const Bf16> out);
void CheckRmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, Matrix<const Bf16> out);
// out_rows, out_cols: the shape of the output.
void CheckLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t out_rows,
                 std::int64_t out_cols);
void CheckGroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                        Matrix<const Bf16> out);
void CheckSwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, Matrix<const Bf16> out);
void CheckHcPre(Matrix<const Bf16> streams, const HcOptions& options, Matrix<const Bf16> out,
                const HcMix& mix);
void CheckHcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<const Bf16> streams);
void CheckHcHead(Matrix<const Bf16> streams, Matrix<const Bf16> out);
void CheckAddToStreams(Matrix<const Bf16> x, Matrix<const Bf16> streams);
void CheckMeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                        Matrix<const Bf16> out);
void CheckAdd(Matrix<const float> x, Matrix<const float> y, Matrix<const float> out);
void CheckQueryHeads(Matrix<const Bf16> q, std::int64_t head_dim, const RopeRows& rope);
void CheckWindowKeys(Matrix<const Bf16> kv, std::span<const Bf16> norm, const RopeRows& rope);
void CheckRoute(Matrix<const float> logits, std::span<const float> bias, const Routing& out);
void CheckRouteByToken(const BatchView& batch, Matrix<const float> logits,
                       Matrix<const std::int64_t> table, const Routing& out);
void CheckExpertRows(Matrix<const Bf16> x, const Routing& routing, Matrix<const Bf16> rows);
void CheckCombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                         Matrix<const Bf16> out);
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
