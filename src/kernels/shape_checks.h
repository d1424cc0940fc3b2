// The shapes that operations with many operands demand, checked the same way by every backend.
#ifndef FATHOM_KERNELS_SHAPE_CHECKS_H_
#define FATHOM_KERNELS_SHAPE_CHECKS_H_

#include <cstdint>

#include "kernels/backend.h"

namespace fathom {

// Each aborts with the name of the operation if its contract in backend.h is broken.
void CheckAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                    Matrix<const Bf16> out);
void CheckAppend(Matrix<const Bf16> keys, const BatchView& batch, const WindowCache& cache);
void CheckCompress(const CompressorInput& input, const BatchView& batch,
                   const CompressorCache& cache);
void CheckIndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<const std::uint8_t> out);

}  // namespace fathom

#endif  // FATHOM_KERNELS_SHAPE_CHECKS_H_
