// Arguments of the kernels in route.cu.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace fathom::kernels::gpu {

// The most experts of a token: each has a thread.
inline constexpr std::int64_t kMostChosen = 64;

// Runs a block per token. Dynamic shared memory: two floats per expert, the second ones from a
// multiple of 16 bytes on.
struct RouteArguments {
  Matrix<const float> logits;  // [t, experts]
  const float* bias = nullptr;
  float scale = 0.0f;
  Matrix<std::int32_t> ids;  // [t, k], k at most kMostChosen
  Matrix<float> weights;     // [t, k]
};

// Runs a block per token.
struct RouteByTokenArguments {
  const Token* tokens = nullptr;  // [t]
  Matrix<const float> logits;
  Matrix<const std::int64_t> table;  // at any address
  float scale = 0.0f;
  Matrix<std::int32_t> ids;
  Matrix<float> weights;
  std::uint64_t* fault = nullptr;
};

}  // namespace fathom::kernels::gpu
