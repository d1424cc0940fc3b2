// cos and sin of a rotary angle: one implementation for the host and for GPUs.
//
// IEEE operations on double, no libm: the same bits everywhere. `Ops` has Floor and MulAdd (rounded
// once).
//
// `static`: see kernels/math.h.
#pragma once

#include <stdint.h>

namespace fathom::kernels {

inline constexpr double kPi = 3.14159265358979323846;

// Computes sin and cos of |x| < 2^31. With r = x - k pi/2 (pi/2 in two parts, exact products by
// fma), the quadrant k mod 4 determines the assignment and the signs of sin r and cos r.
template <class Ops>
static constexpr void SinCos(double x, float* sin, float* cos) {
  const double k = Ops::Floor(x * (2.0 / kPi) + 0.5);
  double r = Ops::MulAdd(k, -0x1.921fb54442d18p+0, x);
  r = Ops::MulAdd(k, -0x1.1a62633145c07p-54, r);
  const double z = r * r;
  double sine = 1.0;
  double cosine = 1.0;
  for (int n = 8; n >= 1; --n) {
    sine = Ops::MulAdd(sine, -z / (2 * n * (2 * n + 1)), 1.0);
    cosine = Ops::MulAdd(cosine, -z / (2 * n * (2 * n - 1)), 1.0);
  }
  sine *= r;
  const auto quadrant = static_cast<int64_t>(k) & 3;
  const double s = (quadrant & 1) != 0 ? cosine : sine;
  const double c = (quadrant & 1) != 0 ? sine : cosine;
  *sin = static_cast<float>((quadrant & 2) != 0 ? -s : s);
  *cos = static_cast<float>(quadrant == 1 || quadrant == 2 ? -c : c);
}

// Computes cos and sin of fp32(position) * frequency, the product rounded to fp32.
template <class Ops>
static constexpr void RopeAngle(int64_t position, float frequency, float* cos, float* sin) {
  const float angle = static_cast<float>(position) * frequency;
  SinCos<Ops>(static_cast<double>(angle), sin, cos);
}

}  // namespace fathom::kernels
