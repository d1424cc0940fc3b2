// Logarithm and exponential from IEEE double operations only: equal bits on every machine, with any
// C library. Drawn tokens depend on these functions.
//
// kernels/math.h has fp32 versions for activations. The tails of the noise need more precision: the
// largest of 129,280 draws is decided in the last of 32 random bits.
#pragma once

#include <bit>
#include <cstdint>

namespace fathom::sampling {

inline constexpr double kLn2 = 0.69314718055994530942;
// ln 2 in two parts; multiples of the first by integers below 2^20 are exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// Returns the natural logarithm of a positive normal number; at most 2 ulp off.
constexpr double PortableLog(double x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const auto bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t e = (bits - 0x3FE6A09E667F3BCD) >> 52;
  const double f = std::bit_cast<double>(bits - (e << 52)) - 1.0;
  // log(1 + f) = 2 atanh(s) with s = f / (2 + f), |s| < 0.172: the first term left out is below
  // 2^-60 of the result. 2 s = f - s f keeps the large term exact.
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = 2.0 / 23;
  for (int odd = 21; odd >= 3; odd -= 2) {
    series = series * z + 2.0 / odd;
  }
  const double n = static_cast<double>(e);
  return n * kLn2High + (f - (s * (f - z * series) - n * kLn2Low));
}

// Returns e^x for x <= 700; at most 2 ulp off. Below -700 it is 0.
constexpr double PortableExp(double x) {
  if (!(x >= -700.0)) return 0.0;
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^52 rounds to an integer.
  constexpr double kRound = 0x1.8p52;
  const double n = (x * (1.0 / kLn2) + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor series, evaluated from its end: 1 + r (1 + r/2 (1 + r/3 (...))); the rest is below
  // 2^-60.
  double p = 1.0 / 6227020800.0;  // 1 / 13!
  double factorial = 6227020800.0;
  for (int i = 13; i >= 3; --i) {
    factorial /= i;
    p = p * r + 1.0 / factorial;
  }
  const double value = 1.0 + (r + r * r * p);
  const auto exponent = static_cast<std::int64_t>(n) + 1023;
  return value * std::bit_cast<double>(exponent << 52);
}

// Returns standard Gumbel noise from 32 uniform bits: -ln(-ln u) with u = (bits + 1/2) / 2^32,
// never 0 or 1.
constexpr double Gumbel(std::uint32_t bits) {
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-32;
  return -PortableLog(-PortableLog(u));
}

// Returns a quick upper bound of Gumbel(bits): -ln u >= 1 - u = (~bits + 1/2) / 2^32, and a 32-bit
// number with z leading zeros is at least 2^(31 - z). The small addend covers the rounding of
// Gumbel.
constexpr double GumbelBound(std::uint32_t bits) {
  return (std::countl_zero(~bits) + 1) * kLn2 + 1e-9;
}
inline constexpr double kGumbelMaximum = 33 * kLn2 + 1e-9;

}  // namespace fathom::sampling
