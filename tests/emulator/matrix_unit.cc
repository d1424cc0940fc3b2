#include "tests/emulator/matrix_unit.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fathom::kernels::emulator {
namespace {

using Kind = MatrixNumber::Kind;

constexpr int kOperandBits = 10;  // bits of a significand after the point
constexpr int kProductBits = 2 * kOperandBits;
constexpr int kFloatBits = 23;
constexpr int kSmallestExponent = -126;  // exponent of fp32

struct Layout {
  int fraction_bits;
  int exponent_bits;
  bool has_infinity;
};

constexpr Layout FindLayout(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kF16:
      return {10, 5, true};
    case MatrixFormat::kBf16:
      return {7, 8, true};
    case MatrixFormat::kE4m3:
      return {3, 4, false};
  }
  __builtin_unreachable();
}

// Returns value * 2^bits, truncated toward zero.
constexpr std::int64_t Shift(std::int64_t value, int bits) {
  if (bits >= 0) return value << bits;
  if (bits <= -63) return 0;
  return value < 0 ? -(-value >> -bits) : value >> -bits;
}

// Returns value * 2^bits, rounded down.
constexpr std::int64_t ShiftDown(std::int64_t value, int bits) {
  return bits >= 0 ? value << bits : value >> std::min(-bits, 63);
}

// Returns sum * 2^exponent with `bits` bits after the point.
float Round(std::int64_t sum, int exponent, int bits, bool toward_zero) {
  if (sum == 0) return 0.0f;
  const auto magnitude = static_cast<std::uint64_t>(std::abs(sum));
  const int top = exponent + static_cast<int>(std::bit_width(magnitude)) - 1;
  const int last = std::max(top, kSmallestExponent) - bits;  // the exponent of the last bit kept
  const int shift = last - exponent;
  if (shift <= 0) return static_cast<float>(std::ldexp(static_cast<double>(sum), exponent));
  const std::uint64_t whole = shift > 63 ? 0 : magnitude >> shift;
  bool up = false;
  if (!toward_zero && shift <= 63) {
    const std::uint64_t rest = magnitude - (whole << shift);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    up = rest > half || (rest == half && whole % 2 == 1);
  }
  if (toward_zero && whole == 0) return 0.0f;
  const double rounded = std::ldexp(static_cast<double>(whole + (up ? 1 : 0)), last);
  return static_cast<float>(sum < 0 ? -rounded : rounded);
}

// Infinity or NaN, if the sum is neither finite nor truncated.
struct Special {
  bool positive = false;
  bool negative = false;
  bool nan = false;

  void Add(bool is_negative) { (is_negative ? negative : positive) = true; }
  bool Any() const { return positive || negative || nan; }
  float Value(const MatrixUnit& unit) const {
    if (!nan && positive != negative) return positive ? INFINITY : -INFINITY;
    return std::bit_cast<float>(unit.toward_zero ? 0x7FFFFFFFu : 0x7FC00000u);
  }
};

void AddProduct(const MatrixNumber& a, const MatrixNumber& b, Special& special) {
  if (a.kind == Kind::kNan || b.kind == Kind::kNan || a.significand == 0 || b.significand == 0) {
    special.nan = true;  // infinity times zero too
  } else {
    special.Add((a.significand < 0) != (b.significand < 0));
  }
}

// Computes one fused sum.
float AddFused(const MatrixUnit& unit, const MatrixNumber* a, const MatrixNumber* b, float c) {
  const auto bits = std::bit_cast<std::uint32_t>(c);
  const int c_field = static_cast<int>(bits >> kFloatBits & 0xFF);
  const int c_exponent = std::max(c_field, 1) - 127;
  std::int64_t c_significand = bits & 0x7FFFFF;
  Special special;
  if (c_field == 255) {
    special.nan = c_significand != 0;
    special.Add(c < 0);
  } else if (c_field > 0) {
    c_significand |= 0x800000;
  }
  if (bits >> 31 != 0) {
    c_significand = -c_significand;
  }

  int largest = unit.toward_zero ? c_exponent : kSmallestExponent;
  for (int i = 0; i < unit.terms; ++i) {
    if (a[i].kind != Kind::kFinite || b[i].kind != Kind::kFinite) {
      AddProduct(a[i], b[i], special);
    } else if (a[i].significand != 0 && b[i].significand != 0) {
      largest = std::max(largest, a[i].exponent + b[i].exponent);
    }
  }
  if (special.Any()) return special.Value(unit);

  std::int64_t sum = 0;  // in units of 2^(largest - fraction_bits)
  for (int i = 0; i < unit.terms; ++i) {
    const std::int64_t product = std::int64_t{a[i].significand} * b[i].significand;
    const int below = a[i].exponent + b[i].exponent - largest;
    sum += product == 0 ? 0 : Shift(product, unit.fraction_bits - kProductBits + below);
  }
  if (unit.toward_zero) {
    sum += Shift(c_significand, unit.fraction_bits - kFloatBits + c_exponent - largest);
    return Round(sum, largest - unit.fraction_bits, unit.result_bits, true);
  }
  // Products keep 31 bits beside the accumulator, which keeps fraction_bits.
  constexpr int kSecondBits = 31;
  const int top = std::max(largest, c_exponent);
  const std::int64_t products = ShiftDown(sum, kSecondBits - unit.fraction_bits + largest - top);
  const std::int64_t accumulator =
      ShiftDown(c_significand, unit.fraction_bits - kFloatBits + c_exponent - top);
  return Round(products + (accumulator << (kSecondBits - unit.fraction_bits)), top - kSecondBits,
               unit.result_bits, false);
}

}  // namespace

MatrixNumber ToMatrixNumber(MatrixFormat format, std::uint32_t bits) {
  const Layout layout = FindLayout(format);
  const std::uint32_t fraction_mask = (1u << layout.fraction_bits) - 1;
  const std::uint32_t exponent_mask = (1u << layout.exponent_bits) - 1;
  const std::uint32_t fraction = bits & fraction_mask;
  const std::uint32_t field = bits >> layout.fraction_bits & exponent_mask;
  const bool negative = (bits >> (layout.fraction_bits + layout.exponent_bits) & 1) != 0;
  MatrixNumber number;
  if (field == exponent_mask && (layout.has_infinity || fraction == fraction_mask)) {
    number.kind = fraction == 0 ? Kind::kInfinity : Kind::kNan;
  }
  const std::uint32_t whole = field == 0 ? 0 : fraction_mask + 1;
  const auto significand =
      static_cast<std::int32_t>((whole | fraction) << (kOperandBits - layout.fraction_bits));
  number.significand = negative ? -significand : significand;
  number.exponent = static_cast<std::int16_t>(static_cast<int>(std::max(field, 1u)) -
                                              static_cast<int>(exponent_mask / 2));
  return number;
}

float MultiplyAdd(const MatrixUnit& unit, std::span<const MatrixNumber> a,
                  std::span<const MatrixNumber> b, float c) {
  const auto terms = static_cast<std::size_t>(unit.terms);
  Check(a.size() == b.size() && a.size() % terms == 0, "operands of a matrix unit: whole sums");
  for (std::size_t i = 0; i < a.size(); i += terms) {
    c = AddFused(unit, a.data() + i, b.data() + i, c);
  }
  return c;
}

}  // namespace fathom::kernels::emulator
