// NumberShape: a set of numbers as a schema describes it, and the texts of these numbers
// (docs/spec/constrained.md 2.1, 2.2).
#pragma once

#include <optional>
#include <vector>

#include "constraint/grammar/expression.h"
#include "constraint/schema/decimal.h"

namespace fathom::constraint {

inline constexpr int kMaxNumberDigits = 64;  // before the point, and after it
inline constexpr const char* kWritableNumbers =
    "expected a number with at most 64 digits before its point and 64 after it";
inline constexpr int kMaxExponentDigits = 2;  // so that every number is below 1e164

struct NumberBound {
  Decimal value{};
  bool exclusive = false;
  friend bool operator==(const NumberBound&, const NumberBound&) = default;
};

// The numbers for which all conditions hold.
struct NumberShape {
  enum class Kind { kAny, kInteger, kFraction };  // kFraction: no integer
  Kind kind = Kind::kAny;
  std::optional<NumberBound> low{};
  std::optional<NumberBound> high{};
  std::vector<Decimal> multiples{};      // divisors: the number is a multiple of each
  std::vector<Decimal> non_multiples{};  // divisors: the number is a multiple of none

  static NumberShape Point(const Decimal& value);
  bool IsFree() const { return *this == NumberShape(); }
  friend bool operator==(const NumberShape&, const NumberShape&) = default;
};

// nullopt if plainly no number is in both.
std::optional<NumberShape> Intersect(const NumberShape& a, const NumberShape& b);
// The numbers that are not in the shape, as a union.
std::vector<NumberShape> Complement(const NumberShape& shape);

// True if a remainder automaton can recognise the multiples (a positive divisor, at most
// kMaxRemainders remainders).
bool IsSupportedDivisor(const Decimal& divisor);

// The texts of the numbers. `canonical`: one text per number; else exponents where the shape is
// free, and any number of zeros at the end of a fraction.
ExpressionId NumberText(ExpressionPool& pool, const NumberShape& shape, bool canonical);
// True if the text of the number has at most kMaxNumberDigits before its point and after it.
bool IsWritable(const Decimal& value);
// True if no number with a text is in the shape. Exact, unless the meter ends the work.
bool IsEmptyShape(const NumberShape& shape, WorkMeter& meter);

}  // namespace fathom::constraint
