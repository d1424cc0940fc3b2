// Norms, rotations, and the quantisation of cached rows (docs/numerics.md 3 and 4).
#include "kernels/cpu/vector/isa_functions.h"
#include "kernels/cpu/vector/rotary.h"
#include "kernels/cpu/vector/simd.h"

namespace fathom::kernels::KERNEL_ISA {
namespace {

inline float ScalarSquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Returns the sum of x[i]^2, i < n, in the order of products with BF16 weights: 32 lanes.
inline float SumOfSquares(const uint16_t* x, int64_t n) {
  F32 lanes[2][kParts];
  for (auto& half : lanes) {
    for (F32& lane : half) {
      lane = Zero();
    }
  }
  int64_t first = 0;
  for (; first + 32 <= n; first += 32) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < kParts; ++part) {
        const F32 value = LoadBf16(x + first + 16 * half + part * kLanes);
        lanes[half][part] = MulAdd(value, value, lanes[half][part]);
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < kParts; ++part) {
      const int64_t i = first + 16 * half + part * kLanes;
      if (i < n) {
        const F32 value = LoadBf16Some(x + i, static_cast<int>(n - i < kLanes ? n - i : kLanes));
        lanes[half][part] = MulAdd(value, value, lanes[half][part]);
      }
    }
  }
  F32 sums[kParts];
  for (int part = 0; part < kParts; ++part) {
    sums[part] = lanes[0][part] + lanes[1][part];
  }
  return TreeSum(sums);
}

// Returns the factor of the RMS norm for n numbers with this sum of squares.
inline float InverseNorm(float sum_of_squares, int64_t n, float eps) {
  return 1.0f / ScalarSquareRoot(sum_of_squares / static_cast<float>(n) + eps);
}

constexpr int64_t kIndexDim = 128;
constexpr int64_t kIndexGroup = 32;
constexpr int64_t kIndexVectors = kIndexDim / kLanes;

// One stage of the Hadamard transform inside registers: lane i with i & kStride == 0 becomes
// a + b, its partner a - b.
template <int kStride>
void ButterflyInside(F32 (&v)[kIndexVectors]) {
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    signs[i] = (i & kStride) == 0 ? 1.0f : -1.0f;
  }
  const F32 sign = Load(signs);
  for (F32& x : v) {
    x = Exchange<kStride>(x) + x * sign;
  }
}

void ButterflyAcross(F32 (&v)[kIndexVectors], int64_t stride) {
  for (int64_t i = 0; i < kIndexVectors; ++i) {
    if ((i & stride) == 0) {
      const F32 a = v[i];
      const F32 b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
  }
}

void RotateHadamard(F32 (&v)[kIndexVectors]) {
  ButterflyInside<1>(v);
  ButterflyInside<2>(v);
  ButterflyInside<4>(v);
  if constexpr (kLanes == 16) {
    ButterflyInside<kLanes / 2>(v);
  }
  for (int64_t stride = 1; stride < kIndexVectors; stride *= 2) {
    ButterflyAcross(v, stride);
  }
  for (F32& x : v) {
    x = RoundToBf16(x * Set(0.08838834764831845f));
  }
}

// Returns the scale of a group of the FP8 simulation.
float GroupScale(const uint16_t* x) {
  F32 largest = Zero();
  for (int64_t i = 0; i < kSimulationGroup; i += kLanes) {
    largest = Max(Abs(LoadBf16(x + i)), largest);
  }
  return PowerOfTwoScale(MaxLanes(largest), 1e-4f, 448.0f);
}

// Returns the codes of x, as FloatToE4m3 does. Times 2^-120 an E4M3 value has its exponent and
// mantissa bits in the upper half of an fp32, subnormals included.
I32 E4m3Codes(F32 x) {
  const I32 bits = ShiftRight<20>(Bits(RoundToE4m3(x) * Set(0x1p-120f)));
  const I32 magnitude = SelectNan(x, SetInt(0x7F), And(bits, SetInt(0x7F)));
  return Or(magnitude, And(ShiftRight<24>(Bits(x)), SetInt(0x80)));
}

// Returns E2M1 codes: the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 with ties to the even code.
I32 E2m1Codes(F32 x) {
  const I32 one = SetInt(1);
  const I32 zero = SetInt(0);
  const F32 a = Abs(x);
  I32 code = SelectLess(Set(0.25f), a, one, zero);
  code = Add(code, SelectAtMost(Set(0.75f), a, one, zero));
  code = Add(code, SelectLess(Set(1.25f), a, one, zero));
  code = Add(code, SelectAtMost(Set(1.75f), a, one, zero));
  code = Add(code, SelectLess(Set(2.5f), a, one, zero));
  code = Add(code, SelectAtMost(Set(3.5f), a, one, zero));
  code = Add(code, SelectLess(Set(5.0f), a, one, zero));
  return Or(code, And(ShiftRight<28>(Bits(x)), SetInt(8)));
}

}  // namespace

void RmsNormRow(const uint16_t* x, const uint16_t* weight, float eps, int64_t d, uint16_t* out) {
  const F32 r = Set(InverseNorm(SumOfSquares(x, d), d, eps));
  ForVectors(d, [&](int64_t i, int n) {
    StoreBf16Some(out + i, LoadBf16Some(weight + i, n) * (LoadBf16Some(x + i, n) * r), n);
  });
}

void QueryHead(uint16_t* q, int64_t head_dim, float eps, const cpu::RotaryRow& rope) {
  F32 lanes[kParts];
  for (F32& lane : lanes) {
    lane = Zero();
  }
  ForLanes(head_dim, [&](int64_t i, int n, int part) {
    const F32 value = LoadBf16Some(q + i, n);
    lanes[part] = lanes[part] + RoundToBf16(value * value);
  });
  const float mean = RoundToBf16(TreeSum(lanes) / static_cast<float>(head_dim));
  const F32 s = Set(RoundToBf16(1.0f / ScalarSquareRoot(RoundToBf16(mean + eps))));
  ForVectors(head_dim,
             [&](int64_t i, int n) { StoreBf16Some(q + i, LoadBf16Some(q + i, n) * s, n); });
  RotatePairs(q + head_dim - 2 * rope.pairs, rope, 1.0f);
}

void Rotate(uint16_t* x, const cpu::RotaryRow& rope) { RotatePairs(x, rope, 1.0f); }

void SimulateFp8(uint16_t* x, int64_t n) {
  for (int64_t first = 0; first < n; first += kSimulationGroup) {
    uint16_t* group = x + first;
    const float scale = GroupScale(group);
    const F32 inverse = Set(1.0f / scale);
    for (int64_t i = 0; i < kSimulationGroup; i += kLanes) {
      StoreBf16(group + i, RoundToE4m3(LoadBf16(group + i) * inverse) * Set(scale));
    }
  }
}

void PackKey(const uint16_t* x, const KeyLayout& layout, uint8_t* packed) {
  const int64_t plain = PlainDims(layout);
  uint8_t* scales = packed + ScaleOffset(layout);
  __builtin_memset(scales, 0, static_cast<size_t>(KeyBytes(layout) - ScaleOffset(layout)));
  for (int64_t first = 0; first < plain; first += kSimulationGroup) {
    const uint16_t* group = x + first;
    const float scale = GroupScale(group);
    const F32 inverse = Set(1.0f / scale);
    int32_t codes[kSimulationGroup];
    for (int64_t i = 0; i < kSimulationGroup; i += kLanes) {
      StoreInt(codes + i, E4m3Codes(LoadBf16(group + i) * inverse));
    }
    for (int64_t i = 0; i < kSimulationGroup; ++i) {
      packed[first + i] = static_cast<uint8_t>(codes[i]);
    }
    scales[first / kSimulationGroup] = static_cast<uint8_t>(FloatToBits(scale) >> 23);
  }
  __builtin_memcpy(packed + plain, x + plain, static_cast<size_t>(2 * layout.rope_dims));
}

void PackIndex(const uint16_t* x, uint8_t* packed) {
  F32 v[kIndexVectors];
  for (int64_t i = 0; i < kIndexVectors; ++i) {
    v[i] = LoadBf16(x + i * kLanes);
  }
  RotateHadamard(v);
  constexpr int64_t kGroupVectors = kIndexGroup / kLanes;
  for (int64_t group = 0; group < kIndexDim / kIndexGroup; ++group) {
    F32 largest = Zero();
    for (int64_t i = 0; i < kGroupVectors; ++i) {
      largest = Max(Abs(v[group * kGroupVectors + i]), largest);
    }
    const float scale = PowerOfTwoScale(MaxLanes(largest), 6.0f * 0x1p-126f, 6.0f);
    const F32 inverse = Set(1.0f / scale);
    int32_t codes[kIndexGroup];
    for (int64_t i = 0; i < kGroupVectors; ++i) {
      StoreInt(codes + i * kLanes, E2m1Codes(v[group * kGroupVectors + i] * inverse));
    }
    for (int64_t i = 0; i < kIndexGroup / 2; ++i) {
      packed[group * kIndexGroup / 2 + i] =
          static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
    packed[kIndexDim / 2 + group] = static_cast<uint8_t>(FloatToBits(scale) >> 23);
  }
}

}  // namespace fathom::kernels::KERNEL_ISA
