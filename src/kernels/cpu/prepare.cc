// Activations in the order in which the products read them (docs/numerics.md 2).
//
// The prepared row holds, per block of 128 columns:
//   kF32              32 lanes in natural order.
//   kBf16, kFp8AsBf16 per 32 columns: the 16 even ones, then the 16 odd ones: a register of bf16
//                     pairs is split into even and odd columns by a shift and a mask.
//   kFp8              [half 0..1][j 0..3][lane 0..15], column 64 half + 4 lane + j, times 2^118:
//                     the kernel's weights are scaled by 2^-120.
//   kFp4              [j 0..7][lane 0..15], column 8 lane + j, times 1/2: the kernel's weights are
//                     twice the value.
// These powers of two are exact in both directions; see product.cc.
#include "kernels/cpu/isa_functions.h"
#include "kernels/cpu/simd.h"

namespace fathom::KERNEL_ISA {
namespace {

constexpr int64_t kBlock = cpu::kProductBlock;

// fma(0, -0, a) = a for every a, even -0: the padding that changes nothing.
constexpr float kPadding = -0.0f;

// The E4M3 values of 128 numbers; returns their scale.
float QuantizeBlock(const uint16_t* x, float factor, float* values) {
  F32 largest = Zero();
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    largest = Max(Abs(LoadBf16(x + i)), largest);
  }
  const float scale = PowerOfTwoScale(MaxLanes(largest), 1e-4f, 448.0f);
  const F32 inverse = Set(1.0f / scale);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    Store(values + i, RoundToE4m3(LoadBf16(x + i) * inverse) * Set(factor));
  }
  return scale;
}

void PrepareFp8(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t first = 0; first < k; first += kBlock) {
    float values[kBlock];
    scales[first / kBlock] = QuantizeBlock(x + first, 0x1p118f, values);
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t j = 0; j < 4; ++j) {
        for (int64_t lane = 0; lane < 16; ++lane) {
          out[first + 64 * half + 16 * j + lane] = values[64 * half + 4 * lane + j];
        }
      }
    }
  }
}

void PrepareFp4(const uint16_t* x, int64_t k, float* out, float* scales) {
  for (int64_t first = 0; first < k; first += kBlock) {
    float values[kBlock];
    scales[first / kBlock] = QuantizeBlock(x + first, 0.5f, values);
    for (int64_t j = 0; j < 8; ++j) {
      for (int64_t lane = 0; lane < 16; ++lane) {
        out[first + 16 * j + lane] = values[8 * lane + j];
      }
    }
  }
}

void PreparePairs(const uint16_t* x, int64_t k, float* out) {
  int64_t i = 0;
  for (; i + 32 <= k; i += 32) {
    for (int64_t part = 0; part < kParts; ++part) {
      const Pairs pairs = LoadBf16Pairs(x + i + 2 * kLanes * part);
      Store(out + i + kLanes * part, pairs.even);
      Store(out + i + kLanes * part + 16, pairs.odd);
    }
  }
  for (int64_t j = i; j < cpu::PaddedColumns(k); ++j) {
    const int64_t in_group = j % 32;
    out[j / 32 * 32 + in_group / 2 + 16 * (in_group % 2)] = j < k ? FromBf16(x[j]) : kPadding;
  }
}

void PrepareNatural(const uint16_t* x, int64_t k, float* out) {
  ForVectors(k, [&](int64_t i, int n) { Store(out + i, LoadBf16(x + i, n), n); });
  for (int64_t i = k; i < cpu::PaddedColumns(k); ++i) {
    out[i] = kPadding;
  }
}

}  // namespace

void Prepare(cpu::ProductFormat format, const uint16_t* x, int64_t k, float* out, float* scales) {
  switch (format) {
    case cpu::ProductFormat::kF32:
      return PrepareNatural(x, k, out);
    case cpu::ProductFormat::kBf16:
    case cpu::ProductFormat::kFp8AsBf16:
      return PreparePairs(x, k, out);
    case cpu::ProductFormat::kFp8:
      return PrepareFp8(x, k, out, scales);
    case cpu::ProductFormat::kFp4:
      return PrepareFp4(x, k, out, scales);
  }
}

}  // namespace fathom::KERNEL_ISA
