// exp, log1p, sigmoid, softplus, silu: one implementation for scalars and vectors.
//
// Each function consists of IEEE operations only, so that the scalar reference and every
// instruction set agree bit for bit (docs/numerics.md 3). The functions are templates over `Ops`,
// which names the number types and their few operations: ScalarOps below, or the vector operations
// of kernels/cpu/vector/simd.h. F has the operators + - * /. Accuracy: Exp and Log1p at most 2 ulp,
// functions built on them 3 ulp (tests/kernels/math_test.cc).
//
// `constexpr`: kernels of GPUs can call them (kernels/gpu/device).
// `static`: every translation unit has its own copy. An object compiled for AVX-512 must not export
// a function that the linker could choose for all machines.
#pragma once

#include <stdint.h>

namespace fathom::kernels {

struct ScalarOps {
  using F = float;
  using I = int32_t;
  static constexpr F Set(float x) { return x; }
  static F MulAdd(F a, F b, F c) { return __builtin_fmaf(a, b, c); }
  static constexpr F SelectLess(F a, F b, F yes, F no) { return a < b ? yes : no; }  // NaN: no
  static constexpr I Bits(F a) { return __builtin_bit_cast(I, a); }
  static constexpr F FromBits(I a) { return __builtin_bit_cast(F, a); }
  static constexpr F ToFloat(I a) { return static_cast<F>(a); }
  static constexpr I SetInt(int32_t a) { return a; }
  static constexpr I Add(I a, I b) { return a + b; }
  static constexpr I Subtract(I a, I b) { return a - b; }
  static constexpr I Halve(I a) { return a >> 1; }      // arithmetic shift
  static constexpr I Exponent(I a) { return a >> 23; }  // arithmetic shift
  static constexpr I ToExponent(I a) { return static_cast<I>(static_cast<uint32_t>(a) << 23); }
};

// e^x. Exp(0) = 1 exactly, Exp(-inf) = 0, overflow is +inf, results below 2^-126 are subnormal.
template <class Ops>
static constexpr typename Ops::F Exp(typename Ops::F x) {
  using F = typename Ops::F;
  using I = typename Ops::I;
  x = Ops::SelectLess(x, Ops::Set(-104.0f), Ops::Set(-104.0f), x);
  x = Ops::SelectLess(Ops::Set(89.0f), x, Ops::Set(89.0f), x);
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the
  // low bits. ln 2 in two parts: n times the first is exact.
  const F magic = Ops::Set(12582912.0f);
  const F shifted = Ops::MulAdd(x, Ops::Set(1.44269504088896341f), magic);
  const F n = shifted - magic;
  F r = Ops::MulAdd(n, Ops::Set(-0.693145751953125f), x);
  r = Ops::MulAdd(n, Ops::Set(-1.42860682030941723e-6f), r);
  // Taylor series; the first term left out is below 2^-27 of the result.
  F p = Ops::Set(1.0f / 5040);
  p = Ops::MulAdd(p, r, Ops::Set(1.0f / 720));
  p = Ops::MulAdd(p, r, Ops::Set(1.0f / 120));
  p = Ops::MulAdd(p, r, Ops::Set(1.0f / 24));
  p = Ops::MulAdd(p, r, Ops::Set(1.0f / 6));
  p = Ops::MulAdd(p, r, Ops::Set(0.5f));
  p = Ops::MulAdd(r * r, p, r) + Ops::Set(1.0f);
  // p 2^n in two factors, because 2^n alone may not be a normal number.
  const I exponent = Ops::Subtract(Ops::Bits(shifted), Ops::Bits(magic));
  const I first = Ops::Halve(exponent);
  const I second = Ops::Subtract(exponent, first);
  const I bias = Ops::SetInt(127);
  return p * Ops::FromBits(Ops::ToExponent(Ops::Add(first, bias))) *
         Ops::FromBits(Ops::ToExponent(Ops::Add(second, bias)));
}

// Computes log(1 + y) for y >= 0.
template <class Ops>
static constexpr typename Ops::F Log1p(typename Ops::F y) {
  using F = typename Ops::F;
  using I = typename Ops::I;
  const F one = Ops::Set(1.0f);
  const F u = one + y;
  const F lost = (y - (u - one)) / u;  // the rounding error of 1 + y, to first order
  // u = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const I e = Ops::Exponent(Ops::Subtract(Ops::Bits(u), Ops::SetInt(0x3F3504F3)));
  const F m = Ops::FromBits(Ops::Subtract(Ops::Bits(u), Ops::ToExponent(e)));
  const F n = Ops::ToFloat(e);
  // log(1 + f) = f - f^2/2 + s (f^2/2 + R), s = f / (2 + f), R = 2 s^2 (1/3 + s^2/5 + s^4/7 + ...):
  // the series of 2 atanh(s), arranged so that the large term f is exact.
  const F f = m - one;
  const F s = f / (Ops::Set(2.0f) + f);
  const F z = s * s;
  F series = Ops::Set(2.0f / 9);
  series = Ops::MulAdd(series, z, Ops::Set(2.0f / 7));
  series = Ops::MulAdd(series, z, Ops::Set(2.0f / 5));
  series = Ops::MulAdd(series, z, Ops::Set(2.0f / 3));
  const F half_square = Ops::Set(0.5f) * f * f;
  const F small = Ops::MulAdd(n, Ops::Set(1.42860682030941723e-6f), lost);
  const F tail = Ops::MulAdd(s, Ops::MulAdd(series, z, half_square), small);
  return Ops::MulAdd(n, Ops::Set(0.693145751953125f), f - (half_square - tail));
}

template <class Ops>
static constexpr typename Ops::F Sigmoid(typename Ops::F x) {
  const typename Ops::F one = Ops::Set(1.0f);
  return one / (one + Exp<Ops>(Ops::Set(0.0f) - x));
}

// x * sigmoid(x)
template <class Ops>
static constexpr typename Ops::F Silu(typename Ops::F x) {
  return x / (Ops::Set(1.0f) + Exp<Ops>(Ops::Set(0.0f) - x));
}

// log(1 + e^x), x itself above 20 as in the official code.
template <class Ops>
static constexpr typename Ops::F Softplus(typename Ops::F x) {
  return Ops::SelectLess(Ops::Set(20.0f), x, x, Log1p<Ops>(Exp<Ops>(x)));
}

}  // namespace fathom::kernels
