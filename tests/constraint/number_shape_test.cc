// NumberShape against bounds that say the same, and arithmetic against searches.
#include "constraint/schema/number_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "constraint/grammar/automaton.h"
#include "constraint/schema/divisors.h"

namespace fathom::constraint {
namespace {

Decimal Number(const std::string& text) { return *ParseDecimal(text); }

bool IsNothing(ExpressionPool& pool, ExpressionId id) {
  constexpr std::size_t kMaxStates = 20'000;
  Automaton automaton(pool, kMaxStates);
  const bool is_nothing = automaton.Start(id) == kDeadState;
  EXPECT_FALSE(automaton.exhausted());
  return is_nothing;
}

bool AreEqual(ExpressionPool& pool, ExpressionId a, ExpressionId b) {
  const ExpressionId more[] = {a, pool.Not(b)};
  const ExpressionId less[] = {b, pool.Not(a)};
  return IsNothing(pool, pool.And(more)) && IsNothing(pool, pool.And(less));
}

TEST(NumberShape, APointHasTheTextsBetweenItsBounds) {
  const std::string most_digits(64, '7');
  for (const std::string& text :
       {std::string("0"), std::string("1"), std::string("-1"), std::string("10"),
        std::string("0.5"), std::string("-0.25"), std::string("1e30"), std::string("1e-30"),
        std::string("123456789012345678901234567890.5"), most_digits, "0." + most_digits}) {
    for (const NumberShape::Kind kind : {NumberShape::Kind::kAny, NumberShape::Kind::kInteger}) {
      for (const bool canonical : {false, true}) {
        NumberShape point = NumberShape::Point(Number(text));
        point.kind = kind;
        ExpressionPool pool;
        const ExpressionId bounds[] = {
            NumberText(pool, {.kind = kind, .low = point.low}, canonical),
            NumberText(pool, {.kind = kind, .high = point.high}, canonical)};
        EXPECT_TRUE(AreEqual(pool, NumberText(pool, point, canonical), pool.And(bounds)))
            << text << (kind == NumberShape::Kind::kInteger ? " integer" : "")
            << (canonical ? " canonical" : "");
      }
    }
  }
}

// A shape by hundredths, for a search number by number.
class Hundredths {
 public:
  explicit Hundredths(const NumberShape& shape) : kind_(shape.kind) {
    if (shape.low) first_ = ToHundredths(shape.low->value);
    if (shape.high) last_ = ToHundredths(shape.high->value);
    for (const Decimal& value : shape.multiples) multiples_.push_back(ToHundredths(value));
    for (const Decimal& value : shape.non_multiples) others_.push_back(ToHundredths(value));
  }

  // Among numbers of which all remainders occur.
  bool FindsAny() const {
    for (std::int64_t n = first_; n <= last_; ++n) {
      if (Holds(n)) return true;
    }
    return false;
  }

 private:
  static std::int64_t ToHundredths(const Decimal& value) {
    return static_cast<std::int64_t>(std::llround(100 * std::stod(PlainText(value))));
  }
  bool Holds(std::int64_t n) const {
    const auto divides = [&](std::int64_t divisor) { return n % divisor == 0; };
    if (kind_ == NumberShape::Kind::kInteger && n % 100 != 0) return false;
    if (kind_ == NumberShape::Kind::kFraction && n % 100 == 0) return false;
    return std::ranges::all_of(multiples_, divides) && std::ranges::none_of(others_, divides);
  }

  const NumberShape::Kind kind_;
  std::int64_t first_ = -100'000;
  std::int64_t last_ = 200'000;
  std::vector<std::int64_t> multiples_;
  std::vector<std::int64_t> others_;
};

TEST(NumberShape, DivisorsLeaveNumbersExactlyWhereSomeAreFound) {
  const std::vector<std::string> divisors = {"2", "3", "4",   "5",   "6",    "10",
                                             "1", "7", "0.5", "1.5", "0.25", "20"};
  std::mt19937 random(7);
  const auto some = [&](std::size_t most) {
    std::vector<Decimal> list;
    for (std::size_t n = random() % (most + 1); n > 0; --n) {
      list.push_back(Number(divisors[random() % divisors.size()]));
    }
    return list;
  };
  int n_empty = 0;
  for (int i = 0; i < 400; ++i) {
    NumberShape shape = {.kind = static_cast<NumberShape::Kind>(random() % 3),
                         .multiples = some(3),
                         .non_multiples = some(3)};
    if (shape.multiples.empty() && shape.non_multiples.empty()) continue;
    if (random() % 2 == 0) shape.low = NumberBound{.value = Number("17")};
    if (random() % 3 == 0) shape.high = NumberBound{.value = Number("1234")};
    const bool is_found = Hundredths(shape).FindsAny();
    // Every divisor above is a number of hundredths, so that a number of thousandths is a multiple
    // of none.
    const bool has_finer = shape.multiples.empty() && shape.kind != NumberShape::Kind::kInteger;
    WorkMeter meter;
    EXPECT_EQ(IsEmptyShape(shape, meter), !is_found && !has_finer) << "shape " << i;
    n_empty += is_found || has_finer ? 0 : 1;
  }
  EXPECT_GT(n_empty, 50);
}

// Divisors whose product has many remainders, beside some that follow from others.
TEST(NumberShape, ManyDivisorsAreNoSearch) {
  WorkMeter meter;
  const std::vector<Decimal> coprime = {Number("97"), Number("89"), Number("83"), Number("79")};
  EXPECT_FALSE(IsEmptyShape({.low = NumberBound{.value = Number("1e20")},
                             .multiples = coprime,
                             .non_multiples = {Number("64"), Number("128")}},
                            meter));
  EXPECT_TRUE(IsEmptyShape({.low = NumberBound{.value = Number("1e20")},
                            .multiples = coprime,
                            .non_multiples = {Number("7387")}},  // 89 * 83
                           meter));
  EXPECT_EQ(meter.n_steps(), 0u);
}

TEST(NumberShape, MultiplesOfSeveralAreThoseOfTheirLeastCommonMultiple) {
  const Divisors divisors({Number("1.5"), Number("4"), Number("6")},
                          {Number("9"), Number("18"), Number("5")});
  ASSERT_EQ(divisors.multiples().size(), 1u);
  EXPECT_EQ(divisors.multiples()[0].factor, 12u);
  EXPECT_EQ(divisors.multiples()[0].scale, 0);
  ASSERT_EQ(divisors.others().size(), 2u);
  EXPECT_EQ(divisors.others()[0].factor, 5u);
  EXPECT_EQ(divisors.others()[1].factor, 9u);
  EXPECT_FALSE(divisors.AreEmpty());
  EXPECT_TRUE(Divisors({Number("1.5"), Number("4")}, {Number("3")}).AreEmpty());
}

TEST(NumberShape, FewMultiplesBetweenBoundsAreListed) {
  const auto list = [](const std::vector<Decimal>& multiples, const std::vector<Decimal>& others,
                       const std::string& low, const std::string& high) {
    const auto numbers = Divisors(multiples, others).Between(Number(low), Number(high), 8);
    if (!numbers) return std::string("unknown");
    std::string text;
    for (const Decimal& number : *numbers) text += PlainText(number) + " ";
    return text;
  };
  EXPECT_EQ(list({Number("8721")}, {Number("2"), Number("5")}, "-100000", "-10000"),
            "-95931 -78489 -61047 -26163 ");
  EXPECT_EQ(list({Number("0.5")}, {Number("1")}, "-1.2", "2.5"), "-0.5 0.5 1.5 2.5 ");
  EXPECT_EQ(list({Number("4")}, {}, "-8", "7.9"), "-8 -4 0 4 ");
  EXPECT_EQ(list({Number("4")}, {}, "5", "7"), "");
  EXPECT_EQ(list({Number("4")}, {}, "0", "100"), "unknown");   // too many
  EXPECT_EQ(list({Number("4")}, {}, "0", "1e30"), "unknown");  // a long search
  EXPECT_EQ(list({}, {Number("4")}, "0", "1"), "unknown");     // no multiples
  // Doubles round such fractions to integers.
  EXPECT_EQ(list({Number("0.5")}, {Number("1")}, "1e16", "10000000000000001"), "unknown");
}

}  // namespace
}  // namespace fathom::constraint
