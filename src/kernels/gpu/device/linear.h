// Arguments of the kernels in linear.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/lane_rows.h"
#include "kernels/weight_format.h"

namespace fathom::kernels::gpu {

// Quantises rows for FP8 and FP4 weights: runs a group of 16 threads per 128 columns.
struct QuantizeRowsArguments {
  Matrix<const Bf16> x;
  // One of these forms of the quantised rows, the others null: codes, or what LaneRows has.
  std::uint8_t* codes = nullptr;  // [rows, cols]
  FourFloats* numbers = nullptr;
  FourWords* digits = nullptr;
  Matrix<float> scales;  // [rows, cols / 128]; NaN where a column is NaN
};

// Products of few rows of x and w (row_product.h): runs a block for 2^shift rows of w.
struct FewRowsArguments {
  LaneRows x;  // of as many rows as the kernel's name says, or fewer
  Weight w;
  int shift = 0;
  Matrix<Bf16> out;  // either out or the next member has data
  Matrix<float> exact;
};

// Rows of activations that a group multiplies with its row of weights.
inline constexpr int kProductTokens = 4;

// Products of x and w: runs a group of 16 threads per row of w and kProductTokens rows of x.
struct LinearArguments {
  Matrix<const Bf16> x;        // for F32 and BF16 weights, and products by blocks; [t, groups * k]
  Matrix<std::uint8_t> codes;  // for FP8 and FP4 weights, from QuantizeRows
  Matrix<float> scales;
  Weight w;
  std::int64_t groups = 1;  // group g of x is multiplied with rows g * n / groups ... of w
  std::int64_t n_rows = 0;  // rows of x
  Matrix<Bf16> out;         // either out or the next member has data
  Matrix<float> exact;
};

}  // namespace fathom::kernels::gpu
