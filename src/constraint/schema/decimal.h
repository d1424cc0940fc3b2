// Decimal: a number of a schema with all its digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fathom::constraint {

// 0.DIGITS * 10^point, negative or not. No zeros at either end of the digits; zero has none.
struct Decimal {
  bool negative = false;
  std::string digits{};
  std::int64_t point = 0;

  bool IsZero() const { return digits.empty(); }
  bool IsInteger() const { return point >= static_cast<std::int64_t>(digits.size()); }
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// The text of a JSON number. Exponents beyond a million count as a million. nullopt: no number.
std::optional<Decimal> ParseDecimal(std::string_view text);
// < 0, 0, > 0 as a is less, equal, greater.
int Compare(const Decimal& a, const Decimal& b);
// The shortest text without exponent, for messages and enumerations of small numbers.
std::string PlainText(const Decimal& value);

// The digits of a magnitude before and after its point.
struct DecimalDigits {
  std::string whole;     // without leading zeros; "0" for none
  std::string fraction;  // without trailing zeros
  // Digits after the first `max_digits` of the fraction were dropped, some of them not zero.
  bool truncated = false;
  // The whole part has more than `max_digits` digits, and `whole` is not set.
  bool overflows = false;
};
DecimalDigits ToDigits(const Decimal& value, int max_digits);

}  // namespace fathom::constraint
