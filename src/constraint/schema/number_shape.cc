#include "constraint/schema/number_shape.h"

#include <algorithm>
#include <string>

#include "constraint/grammar/automaton.h"
#include "constraint/lists.h"
#include "constraint/schema/divisors.h"

namespace fathom::constraint {
namespace {

// Writes the texts of magnitudes, which are numbers without a sign.
class MagnitudeWriter {
 public:
  // `fractions`: digits after a point may be written.
  MagnitudeWriter(ExpressionPool& pool, bool fractions) : pool_(pool), fractions_(fractions) {}

  ExpressionId Any() { return pool_.Concat({Whole(0), AnyFraction()}); }

  // Magnitudes >= the value, or > if `exclusive`.
  ExpressionId AtLeast(const Decimal& value, bool exclusive) {
    const DecimalDigits bound = ToDigits(value, kMaxNumberDigits);
    if (bound.overflows) return pool_.Nothing();
    const auto n = static_cast<int>(bound.whole.size());
    ExpressionId rest = FractionAtLeast(bound.fraction, exclusive || bound.truncated);
    for (int i = n - 1; i >= 0; --i) {
      const char digit = bound.whole[i];
      rest = pool_.Or({pool_.Concat({Digits(digit + 1, '9'), AnyDigits(n - 1 - i), AnyFraction()}),
                       pool_.Concat(Digits(digit, digit), rest)});
    }
    return pool_.Or({rest, pool_.Concat(Whole(n), AnyFraction())});
  }

  // Magnitudes <= the value, or < if `exclusive`.
  ExpressionId AtMost(const Decimal& value, bool exclusive) {
    const DecimalDigits bound = ToDigits(value, kMaxNumberDigits);
    if (bound.overflows) return Any();
    const auto n = static_cast<int>(bound.whole.size());
    ExpressionId rest = FractionAtMost(bound.fraction, exclusive && !bound.truncated);
    for (int i = n - 1; i >= 0; --i) {
      const char digit = bound.whole[i];
      const char least = i == 0 && n > 1 ? '1' : '0';
      rest =
          pool_.Or({pool_.Concat({Digits(least, digit - 1), AnyDigits(n - 1 - i), AnyFraction()}),
                    pool_.Concat(Digits(digit, digit), rest)});
    }
    if (n == 1) return rest;
    const ExpressionId longer =
        pool_.Concat({Digits('1', '9'), pool_.Repeat(Digits('0', '9'), 0, n - 2)});
    const ExpressionId shorter = pool_.Or({Digits('0', '0'), longer});
    return pool_.Or({rest, pool_.Concat(shorter, AnyFraction())});
  }

 private:
  ExpressionId Digits(int first, int last) {
    if (first > last) return pool_.Nothing();
    return pool_.Bytes(
        ByteSet::Range(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)));
  }
  ExpressionId AnyDigits(int n) { return pool_.Repeat(Digits('0', '9'), n, n); }

  // Whole numbers with more than `n` digits.
  ExpressionId Whole(int n) {
    if (n >= kMaxNumberDigits) return pool_.Nothing();
    const ExpressionId longer =
        pool_.Concat({Digits('1', '9'), pool_.Repeat(Digits('0', '9'), n, kMaxNumberDigits - 1)});
    return pool_.Or({n == 0 ? Digits('0', '0') : pool_.Nothing(), longer});
  }

  ExpressionId AnyFraction() {
    if (!fractions_) return pool_.Empty();
    return pool_.Optional(
        pool_.Concat(Point(), pool_.Repeat(Digits('0', '9'), 1, kMaxNumberDigits)));
  }
  ExpressionId Point() { return pool_.Bytes(ByteSet::Of('.')); }

  ExpressionId FractionAtLeast(const std::string& bound, bool exclusive) {
    const auto n = static_cast<int>(bound.size());
    if (n == 0 && !exclusive) return AnyFraction();
    if (!fractions_) return pool_.Nothing();
    const ExpressionId more_than_zero[] = {pool_.Repeat(Digits('0', '0'), 0, kMaxNumberDigits - 1),
                                           Digits('1', '9'),
                                           pool_.Repeat(Digits('0', '9'), 0, kMaxNumberDigits - 1)};
    ExpressionId rest = exclusive ? pool_.Concat(more_than_zero) : MoreDigits(n);
    for (int i = n - 1; i >= 0; --i) {
      rest = pool_.Or({pool_.Concat(Digits(bound[i] + 1, '9'), MoreDigits(i + 1)),
                       pool_.Concat(Digits(bound[i], bound[i]), rest)});
    }
    return pool_.Concat(Point(), rest);
  }

  ExpressionId FractionAtMost(const std::string& bound, bool exclusive) {
    const auto n = static_cast<int>(bound.size());
    if (!fractions_) return n == 0 && exclusive ? pool_.Nothing() : pool_.Empty();
    if (n == 0) {
      if (exclusive) return pool_.Nothing();
      return pool_.Optional(
          pool_.Concat(Point(), pool_.Repeat(Digits('0', '0'), 1, kMaxNumberDigits)));
    }
    ExpressionId rest =
        exclusive ? pool_.Nothing() : pool_.Repeat(Digits('0', '0'), 0, kMaxNumberDigits - n);
    for (int i = n - 1; i >= 0; --i) {
      rest = pool_.Or({pool_.Concat(Digits('0', bound[i] - 1), MoreDigits(i + 1)),
                       pool_.Concat(Digits(bound[i], bound[i]), rest),
                       i > 0 ? pool_.Empty() : pool_.Nothing()});
    }
    return pool_.Optional(pool_.Concat(Point(), rest));
  }

  // The digits that may follow the first `n` of a fraction.
  ExpressionId MoreDigits(int n) {
    return pool_.Repeat(Digits('0', '9'), 0, std::max(0, kMaxNumberDigits - n));
  }

  ExpressionPool& pool_;
  bool fractions_;
};

ExpressionId SignedText(ExpressionPool& pool, const NumberShape& shape, bool integer) {
  MagnitudeWriter writer(pool, !integer);
  std::vector<ExpressionId> positive = {writer.Any()};
  std::vector<ExpressionId> negative = {writer.Any()};
  if (shape.low) {
    const auto& [value, exclusive] = *shape.low;
    if (value.negative) {
      negative.push_back(writer.AtMost(value, exclusive));
    } else {
      negative.push_back(pool.Nothing());
      positive.push_back(writer.AtLeast(value, exclusive));
    }
  }
  if (shape.high) {
    const auto& [value, exclusive] = *shape.high;
    if (value.negative) {
      positive.push_back(pool.Nothing());
      negative.push_back(writer.AtLeast(value, exclusive));
    } else {
      positive.push_back(writer.AtMost(value, exclusive));
      if (value.IsZero() && exclusive) negative.push_back(writer.AtLeast(value, true));
    }
  }
  if (integer) {  // no -0
    if (negative.size() == 1) negative.clear();
    negative.push_back(
        pool.Concat({pool.Bytes(ByteSet::Range('1', '9')),
                     pool.Repeat(pool.Bytes(ByteSet::Range('0', '9')), 0, kMaxNumberDigits - 1)}));
  }
  if (positive.size() > 1) positive.erase(positive.begin());
  if (negative.size() > 1 && !integer) negative.erase(negative.begin());
  return pool.Or(
      {pool.And(positive), pool.Concat(pool.Bytes(ByteSet::Of('-')), pool.And(negative))});
}

// True if the shape says that the number is one value, and nothing else.
bool IsPoint(const NumberShape& shape) {
  return shape.kind != NumberShape::Kind::kFraction && shape.multiples.empty() &&
         shape.non_multiples.empty() && shape.low && shape.low == shape.high &&
         !shape.low->exclusive && IsWritable(shape.low->value);
}

// The texts of one value. They are the intersection of the texts of both bounds, which would take
// long to find for an enum of many numbers.
ExpressionId PointText(ExpressionPool& pool, const Decimal& value, bool integer, bool canonical) {
  const DecimalDigits digits = ToDigits(value, kMaxNumberDigits);
  const bool is_whole = digits.fraction.empty();
  if (integer && !is_whole) return pool.Nothing();
  std::string text = (value.negative ? "-" : "") + digits.whole;
  if (!is_whole) text += "." + digits.fraction;
  if (integer || canonical) return pool.Literal(text);
  const auto n_left = static_cast<std::uint32_t>(kMaxNumberDigits - digits.fraction.size());
  const ExpressionId zeros = pool.Repeat(pool.Literal("0"), is_whole ? 1 : 0, n_left);
  return pool.Concat(pool.Literal(text),
                     is_whole ? pool.Optional(pool.Concat(pool.Literal("."), zeros)) : zeros);
}

// An exponent is short, so that the number is finite as a double: readers with doubles would take
// it for infinity, which JSON does not have.
ExpressionId FreeNumber(ExpressionPool& pool) {
  const ExpressionId digits =
      pool.Repeat(pool.Bytes(ByteSet::Range('0', '9')), 1, kMaxExponentDigits);
  const ExpressionId exponent =
      pool.Concat({pool.Bytes(ByteSet::Of('e') | ByteSet::Of('E')),
                   pool.Optional(pool.Bytes(ByteSet::Of('+') | ByteSet::Of('-'))), digits});
  return pool.Concat({pool.Optional(pool.Bytes(ByteSet::Of('-'))),
                      MagnitudeWriter(pool, true).Any(), pool.Optional(exponent)});
}

// Texts whose fraction is missing or has zeros only.
ExpressionId WholeValues(ExpressionPool& pool) {
  const ExpressionId zeros = pool.Repeat(pool.Bytes(ByteSet::Of('0')), 1, kMaxNumberDigits);
  return pool.Concat({pool.Optional(pool.Bytes(ByteSet::Of('-'))),
                      MagnitudeWriter(pool, false).Any(),
                      pool.Optional(pool.Concat(pool.Bytes(ByteSet::Of('.')), zeros))});
}

// Whole numbers, and fractions with so few digits that doubles keep them apart from their
// neighbours: readers with doubles take others for integers and multiples.
ExpressionId ShortFractions(ExpressionPool& pool, std::uint32_t most_digits) {
  const ExpressionId digit = pool.Bytes(ByteSet::Range('0', '9'));
  const ExpressionId fraction = pool.Concat(
      {pool.Repeat(digit, 1, 9), pool.Bytes(ByteSet::Of('.')), pool.Repeat(digit, 1, most_digits)});
  const ExpressionId magnitude = pool.Or({pool.Repeat(digit, 1, kMaxNumberDigits), fraction});
  return pool.Concat(pool.Optional(pool.Bytes(ByteSet::Of('-'))), magnitude);
}

// One text per number: no zeros at the end of a fraction, no -0.
ExpressionId CanonicalTexts(ExpressionPool& pool) {
  const ExpressionId zero_to_nine = pool.Bytes(ByteSet::Range('0', '9'));
  const ExpressionId one_to_nine = pool.Bytes(ByteSet::Range('1', '9'));
  const ExpressionId fraction =
      pool.Concat({pool.Bytes(ByteSet::Of('.')), pool.Repeat(zero_to_nine, 0, kMaxNumberDigits - 1),
                   one_to_nine});
  const ExpressionId text =
      pool.Concat({pool.Optional(pool.Bytes(ByteSet::Of('-'))), MagnitudeWriter(pool, false).Any(),
                   pool.Optional(fraction)});
  return pool.And({text, pool.Not(pool.Literal("-0"))});
}

ExpressionId Multiples(ExpressionPool& pool, const Divisor& divisor) {
  const auto factor = static_cast<std::uint32_t>(divisor.factor);
  const ExpressionId sign = pool.Optional(pool.Bytes(ByteSet::Of('-')));
  if (divisor.scale <= 0) {
    return pool.Concat(sign, pool.Multiple(factor, static_cast<int>(-divisor.scale)));
  }
  const ExpressionId zero = pool.Bytes(ByteSet::Of('0'));
  const auto n_zeros = static_cast<std::uint32_t>(divisor.scale);
  const ExpressionId multiple =
      pool.Concat(pool.Multiple(factor, -1), pool.Repeat(zero, n_zeros, n_zeros));
  const ExpressionId fraction = pool.Optional(
      pool.Concat(pool.Bytes(ByteSet::Of('.')), pool.Repeat(zero, 1, kMaxNumberDigits)));
  return pool.Concat({sign, pool.Or({zero, multiple}), fraction});
}

// The bound that excludes more; `sign` is 1 for lower bounds, -1 for upper ones.
std::optional<NumberBound> Narrower(const std::optional<NumberBound>& a,
                                    const std::optional<NumberBound>& b, int sign) {
  if (!a || !b) return a ? a : b;
  const int order = Compare(a->value, b->value) * sign;
  if (order == 0) return a->exclusive ? a : b;
  return order > 0 ? a : b;
}

// Integers are the multiples of 1.
Divisors FindDivisors(const NumberShape& shape) {
  const Decimal one = {.digits = "1", .point = 1};
  std::vector<Decimal> multiples = shape.multiples;
  std::vector<Decimal> others = shape.non_multiples;
  const bool has_divisors = !multiples.empty() || !others.empty();
  if (has_divisors && shape.kind == NumberShape::Kind::kInteger) multiples.push_back(one);
  if (has_divisors && shape.kind == NumberShape::Kind::kFraction) others.push_back(one);
  return {multiples, others};
}

// The numbers of the shape, if they are plainly few.
std::optional<std::vector<Decimal>> FewNumbers(const NumberShape& shape) {
  constexpr std::size_t kMostNumbers = 64;
  const bool has_divisors = !shape.multiples.empty() || !shape.non_multiples.empty();
  if (!has_divisors || !shape.low || !shape.high) return std::nullopt;
  auto numbers = FindDivisors(shape).Between(shape.low->value, shape.high->value, kMostNumbers);
  if (!numbers) return std::nullopt;
  std::erase_if(*numbers, [&](const Decimal& number) {
    return (shape.low->exclusive && number == shape.low->value) ||
           (shape.high->exclusive && number == shape.high->value);
  });
  return numbers;
}

// True if a number can be named without a search. False proves nothing.
bool PlainlyHasNumbers(const NumberShape& shape) {
  if (!shape.multiples.empty() || !shape.non_multiples.empty()) {
    if (shape.low && shape.high) return false;
    const auto& bound = shape.low ? shape.low : shape.high;
    return FindDivisors(shape).HaveAbove(bound ? bound->value.point : 0);
  }
  if (!shape.low && !shape.high) return true;
  if (shape.kind == NumberShape::Kind::kFraction) return false;
  const bool integer = shape.kind == NumberShape::Kind::kInteger;
  const auto is_in = [&](const std::optional<NumberBound>& bound) {
    return bound && !bound->exclusive && (!integer || bound->value.IsInteger()) &&
           IsWritable(bound->value);
  };
  if (is_in(shape.low) || is_in(shape.high)) return true;
  // On the open side of a single bound there are numbers with more digits.
  const auto& bound = shape.low ? shape.low : shape.high;
  return !(shape.low && shape.high) && bound->value.point < kMaxNumberDigits;
}

}  // namespace

NumberShape NumberShape::Point(const Decimal& value) {
  return {.low = NumberBound{.value = value}, .high = NumberBound{.value = value}};
}

std::optional<NumberShape> Intersect(const NumberShape& a, const NumberShape& b) {
  NumberShape both = a;
  if (b.kind != NumberShape::Kind::kAny) {
    if (a.kind != NumberShape::Kind::kAny && a.kind != b.kind) return std::nullopt;
    both.kind = b.kind;
  }
  both.low = Narrower(a.low, b.low, 1);
  both.high = Narrower(a.high, b.high, -1);
  for (const Decimal& divisor : b.multiples) AddNew(both.multiples, divisor);
  for (const Decimal& divisor : b.non_multiples) AddNew(both.non_multiples, divisor);
  if (both.low && both.high) {
    const int order = Compare(both.low->value, both.high->value);
    if (order > 0 || (order == 0 && (both.low->exclusive || both.high->exclusive))) {
      return std::nullopt;
    }
    const bool integer = both.low->value.IsInteger();
    if (order == 0 && ((both.kind == NumberShape::Kind::kInteger && !integer) ||
                       (both.kind == NumberShape::Kind::kFraction && integer))) {
      return std::nullopt;
    }
  }
  return both;
}

std::vector<NumberShape> Complement(const NumberShape& shape) {
  using Kind = NumberShape::Kind;
  std::vector<NumberShape> rest;
  if (shape.kind != Kind::kAny) {
    rest.push_back({.kind = shape.kind == Kind::kInteger ? Kind::kFraction : Kind::kInteger});
  }
  if (shape.low) {
    rest.push_back({.high = NumberBound{shape.low->value, !shape.low->exclusive}});
  }
  if (shape.high) {
    rest.push_back({.low = NumberBound{shape.high->value, !shape.high->exclusive}});
  }
  for (const Decimal& value : shape.multiples) rest.push_back({.non_multiples = {value}});
  for (const Decimal& value : shape.non_multiples) rest.push_back({.multiples = {value}});
  return rest;
}

bool IsSupportedDivisor(const Decimal& divisor) { return SplitDivisor(divisor).has_value(); }

ExpressionId NumberText(ExpressionPool& pool, const NumberShape& shape, bool canonical) {
  if (shape.IsFree() && !canonical) return FreeNumber(pool);
  const bool integer = shape.kind == NumberShape::Kind::kInteger;
  if (IsPoint(shape)) return PointText(pool, shape.low->value, integer, canonical);
  if (const auto numbers = FewNumbers(shape)) {
    std::vector<ExpressionId> texts;
    for (const Decimal& number : *numbers) {
      texts.push_back(PointText(pool, number, integer, canonical));
    }
    return pool.Or(texts);
  }
  // A multiple must differ, as a double, from its neighbours; another number from all multiples.
  constexpr std::uint32_t kDigitsOfMultiples = 12;
  constexpr std::uint32_t kDigitsOfOthers = 6;
  std::vector<ExpressionId> all = {SignedText(pool, shape, integer)};
  const bool is_fraction = shape.kind == NumberShape::Kind::kFraction;
  if (is_fraction) all.push_back(pool.Not(WholeValues(pool)));
  if (is_fraction || (!shape.non_multiples.empty() && !integer)) {
    all.push_back(ShortFractions(pool, kDigitsOfOthers));
  }
  const Divisors divisors = FindDivisors(shape);
  if (divisors.AreEmpty()) return pool.Nothing();
  for (const Divisor& divisor : divisors.multiples()) all.push_back(Multiples(pool, divisor));
  if (!shape.multiples.empty() && !integer) {
    all.push_back(ShortFractions(pool, kDigitsOfMultiples));
  }
  for (const Divisor& divisor : divisors.others()) {
    all.push_back(pool.Not(Multiples(pool, divisor)));
  }
  if (canonical && !integer) all.push_back(CanonicalTexts(pool));
  return pool.And(all);
}

bool IsWritable(const Decimal& value) {
  const DecimalDigits digits = ToDigits(value, kMaxNumberDigits);
  return !digits.overflows && !digits.truncated;
}

bool IsEmptyShape(const NumberShape& shape, WorkMeter& meter) {
  if (PlainlyHasNumbers(shape)) return false;
  if (FindDivisors(shape).AreEmpty()) return true;
  if (const auto numbers = FewNumbers(shape)) return numbers->empty();
  ExpressionPool pool(&meter);
  const ExpressionId text = NumberText(pool, shape, false);
  constexpr std::size_t kMaxStates = 50'000;
  Automaton automaton(pool, kMaxStates);
  const StateId start = automaton.Start(text);
  return start == kDeadState && !automaton.exhausted();
}

}  // namespace fathom::constraint
