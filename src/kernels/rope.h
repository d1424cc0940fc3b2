// Rotary position embedding: frequencies, and cos/sin of an angle (docs/spec/model.md 4).
//
// Everything is IEEE arithmetic on float and double, no libm: the same bits on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fathom::kernels {

// YaRN: dimensions that turn less than beta_slow times over the original length are slowed down by
// `factor`, dimensions that turn more than beta_fast times are unchanged, linear in between.
struct YarnScaling {
  float factor = 1.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  std::int64_t original_length = 0;  // 0: no scaling
};

// Returns the rope_dims / 2 frequencies base^(-2k / rope_dims), in fp32 as the official code
// computes them.
std::vector<float> RopeFrequencies(std::int64_t rope_dims, float base, const YarnScaling& yarn);

// Computes cos and sin of fp32(position) * frequency, the product rounded to fp32; one pair per
// frequency.
void RopeAngles(std::int64_t position, std::span<const float> frequencies, float* cos, float* sin);

}  // namespace fathom::kernels
