// Arguments of the kernels in norm.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

// Runs a block per row.
struct RmsNormArguments {
  Matrix<const Bf16> x;
  const Bf16* weight = nullptr;
  float eps = 0.0f;
  Matrix<Bf16> out;
};

// Runs a group of 16 threads per head of a row.
struct QueryHeadsArguments {
  Matrix<Bf16> q;
  std::int64_t head_dim = 0;
  float eps = 0.0f;
  RopeRows rope;
};

// Runs a block of kMaxBlockThreads threads per row.
inline constexpr std::int64_t kMostKeyNumbers = 4096;
struct WindowKeysArguments {
  Matrix<Bf16> kv;  // [t, at most kMostKeyNumbers]
  const Bf16* norm = nullptr;
  float eps = 0.0f;
  RopeRows rope;
};

// Runs a thread per number.
struct RopeRowsArguments {
  const std::int32_t* positions = nullptr;  // [rows]
  const float* frequencies = nullptr;
  Matrix<float> cos;
  Matrix<float> sin;
};

}  // namespace fathom::kernels::gpu
