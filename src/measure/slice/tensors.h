// The tensors of a native checkpoint and the spread of their random values, which keeps activations
// near 1 at every depth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/model_config.h"

namespace fathom::measure {

// The values by type:
//   F32, BF16  normal with this mean and deviation
//   F8_E4M3    codes of a normal distribution of deviation kE4m3Deviation
//   I8         two E2M1 codes a byte, of one of deviation kE2m1Deviation
//   I64        experts [tokens, k]: k different ids of each token, 0 to n_experts - 1
//   F8_E8M0    the two powers of two around `deviation`, mixed so that it is the root mean square
struct SliceTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  double mean = 0;
  double deviation = 0;
  std::int64_t n_experts = 0;  // experts of an I64 tensor; at least k
};

// The scale of a quantised block is the smallest power of two that brings its largest value into
// the format, so that this value is between half the format's maximum and the maximum: 3 to 6 in
// E2M1, 224 to 448 in E4M3. The largest of 32 normal values is about 2.4 deviations, the largest of
// 128 x 128 values about 4.
inline constexpr double kE2m1Deviation = 1.75;
inline constexpr double kE4m3Deviation = 84;

std::int64_t ByteCount(const SliceTensor& tensor);

// Returns all tensors by the formulas of docs/spec/checkpoint.md 2 and docs/spec/mtp.md 1.1 and
// 2.2, one list per part: embedding, each layer, head, and each stage of the draft head that the
// configuration names. A part is in the order of the official safetensors library: widest type
// first, then by name.
std::vector<std::vector<SliceTensor>> SliceParts(const ModelConfig& config);

}  // namespace fathom::measure
