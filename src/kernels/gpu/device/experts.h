// Arguments of the kernels in experts.cu. A row is an expert of a token: row i * k + j is the j-th
// expert of token i.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

struct ExpertArguments {
  Matrix<const Bf16> x;        // [tokens, d]
  Matrix<std::uint8_t> codes;  // x, or hidden, quantised
  Matrix<float> scales;
  Matrix<const std::int32_t> ids;          // [tokens, k]
  const float* weights = nullptr;          // [tokens, k]
  const ExpertWeights* experts = nullptr;  // [n_experts]
  std::int64_t n_experts = 0;
  std::int64_t first_token = 0;  // token from which ids count, for faults
  float clamp = 0.0f;
  Matrix<Bf16> hidden;  // [rows, moe_intermediate]
  Matrix<Bf16> rows;    // [rows, d]
  std::uint64_t* fault = nullptr;
};

// out [t, d] = bf16(sum of the token's k rows in order + shared): a thread per number.
struct CombineArguments {
  Matrix<const Bf16> rows;
  Matrix<const Bf16> shared;
  std::int64_t k = 0;
  Matrix<Bf16> out;
};

}  // namespace fathom::kernels::gpu
