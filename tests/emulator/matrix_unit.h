// The arithmetic of the matrix units of GPUs, to the bit, in integers.
//
// A unit adds several products and the accumulator as one *fused sum*: the products are exact; all
// terms are shifted to the largest exponent among them and truncated toward zero to `fraction_bits`
// bits after the point; the truncated terms are added exactly and rounded once. A product has the
// sum of its operands' exponents, also where its significand is 2 or more; subnormal numbers have
// the smallest exponent of their format. gfx942 adds the accumulator in a second step. The
// properties of the units are taken from "MMA-Sim" (arXiv 2511.10909), which found them on devices;
// nothing here has been compared with a device yet.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fathom::kernels::emulator {

enum class MatrixFormat : std::uint8_t { kF16, kBf16, kE4m3 };  // E4M3: FN

// An operand, taken apart: significand * 2^(exponent - 10).
struct MatrixNumber {
  enum class Kind : std::uint8_t { kFinite, kInfinity, kNan };
  std::int32_t significand = 0;  // with the sign; normal: 2^10 to 2^11 - 1
  std::int16_t exponent = 0;
  Kind kind = Kind::kFinite;
};

MatrixNumber ToMatrixNumber(MatrixFormat format, std::uint32_t bits);

struct MatrixUnit {
  std::string_view name;
  int terms = 0;          // products in a fused sum
  int fraction_bits = 0;  // bits kept of each term
  int result_bits = 0;    // bits kept of the sum: 23, or fewer
  // Rounds sums toward zero; else the accumulator is added in a second step, and sums are rounded
  // to the nearest, ties to even.
  bool toward_zero = true;
};
inline constexpr MatrixUnit kSm80Mma = {"sm_80 mma f16, bf16", 8, 24, 23};
inline constexpr MatrixUnit kSm90Mma = {"sm_90 mma, wgmma f16, bf16", 16, 25, 23};
inline constexpr MatrixUnit kSm90WgmmaFp8 = {"sm_90 wgmma e4m3", 32, 13, 13};
inline constexpr MatrixUnit kSm100Fp8 = {"sm_100 tcgen05 f8f6f4", 32, 25, 23};
inline constexpr MatrixUnit kGfx942Mfma = {"gfx942 mfma f16", 8, 24, 23, false};

// Returns c + a[0] b[0] + a[1] b[1] + ...: fused sums of unit.terms products each, in ascending
// order, from c on. a and b have equal sizes, multiples of unit.terms. A sum of zero is +0. Beyond
// fp32: infinity. NaN has the unit's bits: 0x7FFFFFFF on NVIDIA.
float MultiplyAdd(const MatrixUnit& unit, std::span<const MatrixNumber> a,
                  std::span<const MatrixNumber> b, float c);

}  // namespace fathom::kernels::emulator
