// Arguments of the kernels in compressor.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

inline constexpr int kMaxSpan = 128;  // tokens that one row is made of

// AddPositionScores: scores += ape of the position, a thread per number. Then CompressRows: a block
// per token, which makes the row that the token completes; dynamic shared memory: a Bf16 per
// dimension. Then KeepInputs: a thread per number of the inputs.
struct CompressArguments {
  Matrix<const float> values;
  Matrix<float> scores;
  const float* ape = nullptr;
  const Bf16* norm = nullptr;
  std::int64_t width = 0;
  float norm_eps = 0.0f;
  const float* frequencies = nullptr;
  std::int64_t pairs = 0;
  DeviceBatch batch;
  CompressorCache cache;
  std::uint64_t* fault = nullptr;
};

}  // namespace fathom::kernels::gpu
