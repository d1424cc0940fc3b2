// Remainder automata of multipleOf, as expressions that are made as their digits are read.
#include "base/check.h"
#include "constraint/grammar/expression.h"

namespace fathom::constraint {
namespace {

// The continuations of the digits so far, packed into a number.
struct MultipleRest {
  bool behind_point = false;
  bool may_have_point = false;
  std::uint32_t fraction_digits = 0;  // digits that count; only zeros may follow them

  static MultipleRest Unpack(std::uint32_t packed) {
    return {(packed & 1) != 0, (packed & 2) != 0, packed >> 2};
  }
  std::uint32_t Pack() const {
    return (behind_point ? 1u : 0u) | (may_have_point ? 2u : 0u) | fraction_digits << 2;
  }
};

std::uint32_t TimesPowerOfTen(std::uint64_t value, std::uint32_t power, std::uint32_t modulus) {
  for (; power > 0; --power) value = value * 10 % modulus;
  return static_cast<std::uint32_t>(value % modulus);
}

// True if some digits, at most `n`, can make the remainder zero.
bool CanBecomeZero(std::uint32_t modulus, std::uint32_t shifted_remainder, std::uint32_t n) {
  const std::uint32_t missing = (modulus - shifted_remainder) % modulus;
  std::uint64_t numbers = 1;
  for (; n > 0 && numbers <= missing; --n) numbers *= 10;
  return missing < numbers;
}

}  // namespace

ExpressionId ExpressionPool::Multiple(std::uint32_t modulus, std::uint32_t remainder,
                                      std::uint32_t packed) {
  const MultipleRest rest = MultipleRest::Unpack(packed);
  const std::uint32_t shifted = TimesPowerOfTen(remainder, rest.fraction_digits, modulus);
  if (rest.behind_point && !CanBecomeZero(modulus, shifted, rest.fraction_digits)) return kNothing;
  return Intern({.kind = Kind::kMultiple,
                 .flags = static_cast<std::uint8_t>(kFirstByte | kMayBeEndless |
                                                    (shifted == 0 ? kNullable : 0)),
                 .a = modulus,
                 .b = remainder,
                 .c = packed,
                 .min_length = shifted == 0 ? 0u : 1u});
}

ExpressionId ExpressionPool::DeriveMultiple(const Node& node, std::uint32_t symbol) {
  if (symbol >= kFirstLetterSymbol) return kNothing;
  const std::uint8_t byte = representatives_[symbol];
  MultipleRest rest = MultipleRest::Unpack(node.c);
  if (byte == '.') {
    if (!rest.may_have_point) return kNothing;
    rest.may_have_point = false;
    rest.behind_point = true;
    return Multiple(node.a, node.b, rest.Pack());
  }
  if (byte < '0' || byte > '9') return kNothing;
  if (rest.behind_point && rest.fraction_digits == 0) {
    return byte == '0' ? Multiple(node.a, node.b, node.c) : kNothing;
  }
  if (rest.behind_point) --rest.fraction_digits;
  const auto digit = static_cast<std::uint32_t>(byte - '0');
  return Multiple(node.a, (node.b * 10 + digit) % node.a, rest.Pack());
}

ExpressionId ExpressionPool::Multiple(std::uint32_t modulus, int fraction_digits) {
  constexpr std::uint32_t kMaxModulus = 10'000;
  Check(modulus >= 1 && modulus <= kMaxModulus, "expected a modulus from 1 to 10000");
  // Each digit is a class of bytes of its own.
  for (const char c : std::string_view("0123456789.")) {
    Bytes(ByteSet::Of(static_cast<std::uint8_t>(c)));
  }
  const MultipleRest rest{
      .may_have_point = fraction_digits >= 0,
      .fraction_digits = fraction_digits > 0 ? static_cast<std::uint32_t>(fraction_digits) : 0u};
  return Multiple(modulus, 0, rest.Pack());
}

}  // namespace fathom::constraint
