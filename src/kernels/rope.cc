#include "kernels/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/rope_angle.h"

namespace fathom::kernels {
namespace {

constexpr double kLogOf2 = 0.6931471805599453094;

struct HostDoubleOps {
  static double Floor(double x) { return std::floor(x); }
  static double MulAdd(double a, double b, double c) { return std::fma(a, b, c); }
};

// log(x) for normal x > 0, about 1e-16 relative: x = 2^e m, log m = 2 atanh((m - 1) / (m + 1)).
double Log(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t e = (bits - std::bit_cast<std::int64_t>(0.70710678118654752)) >> 52;
  const double m = std::bit_cast<double>(bits - (e << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 0.0;
  for (int k = 23; k >= 1; k -= 2) {
    series = std::fma(series, z, 1.0 / k);
  }
  return std::fma(static_cast<double>(e), kLogOf2, 2.0 * s * series);
}

// Computes e^x for |x| < 700.
double Exp(double x) {
  const double n = std::floor(x / kLogOf2 + 0.5);
  double r = std::fma(n, -0x1.62e42fefa39efp-1, x);
  r = std::fma(n, -0x1.abc9e3b39803fp-56, r);
  double series = 1.0;
  for (int k = 18; k >= 1; --k) {
    series = std::fma(series, r / k, 1.0);
  }
  return series * std::bit_cast<double>((static_cast<std::int64_t>(n) + 1023) << 52);
}

// Returns the dimension that turns `rotations` times over `length` positions.
double FindDimension(double rotations, std::int64_t rope_dims, float base, std::int64_t length) {
  return static_cast<double>(rope_dims) *
         Log(static_cast<double>(length) / (rotations * 2.0 * kPi)) /
         (2.0 * Log(static_cast<double>(base)));
}

}  // namespace

std::vector<float> RopeFrequencies(std::int64_t rope_dims, float base, const YarnScaling& yarn) {
  const std::int64_t n = rope_dims / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    const float exponent = static_cast<float>(2 * k) / static_cast<float>(rope_dims);
    const auto power =
        static_cast<float>(Exp(static_cast<double>(exponent) * Log(static_cast<double>(base))));
    frequencies[static_cast<std::size_t>(k)] = 1.0f / power;
  }
  if (yarn.original_length == 0) return frequencies;
  const double last = static_cast<double>(rope_dims - 1);
  const auto low = static_cast<float>(std::max(
      std::floor(FindDimension(yarn.beta_fast, rope_dims, base, yarn.original_length)), 0.0));
  auto high = static_cast<float>(std::min(
      std::ceil(FindDimension(yarn.beta_slow, rope_dims, base, yarn.original_length)), last));
  if (low == high) {
    high += 0.001f;  // as in the official code: avoids a division by zero
  }
  for (std::int64_t k = 0; k < n; ++k) {
    float& f = frequencies[static_cast<std::size_t>(k)];
    const float ramp = std::clamp((static_cast<float>(k) - low) / (high - low), 0.0f, 1.0f);
    const float smooth = 1.0f - ramp;
    f = f / yarn.factor * (1.0f - smooth) + f * smooth;
  }
  return frequencies;
}

void RopeAngles(std::int64_t position, std::span<const float> frequencies, float* cos, float* sin) {
  for (std::size_t k = 0; k < frequencies.size(); ++k) {
    RopeAngle<HostDoubleOps>(position, frequencies[k], &cos[k], &sin[k]);
  }
}

}  // namespace fathom::kernels
