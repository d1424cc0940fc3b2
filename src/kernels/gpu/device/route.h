// Arguments of the kernels in route.cu.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace fathom::kernels::gpu {

// Runs a block per token. Dynamic shared memory: a float and an int32_t per expert, the latter from
// a multiple of 16 bytes on.
struct RouteArguments {
  Matrix<const float> logits;  // [t, experts]
  const float* bias = nullptr;
  float scale = 0.0f;
  Matrix<std::int32_t> ids;  // [t, k]
  Matrix<float> weights;     // [t, k]
};

// Runs a thread per token.
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
