#include "constraint/schema/divisors.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

namespace fathom::constraint {
namespace {

constexpr int kMaxScale = 64;  // digits of numbers before and after the point
constexpr std::uint64_t kMaxProduct = 1'000'000'000'000'000'000;

// `value` times a power of ten.
std::uint64_t ShiftLeft(std::uint64_t value, std::int64_t power) {
  for (; power > 0 && value <= kMaxProduct; --power) value *= 10;
  return value;  // beyond kMaxProduct: too large
}

// 0: too large.
std::uint64_t LeastCommonMultiple(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t rest = b / std::gcd(a, b);
  return a > kMaxProduct / rest ? 0 : a * rest;
}

// The value as an integer of a scale, rounded towards zero; nullopt: too large.
std::optional<std::int64_t> ToInteger(const Decimal& value, std::int64_t scale, bool& is_exact) {
  constexpr std::int64_t kMaxDigits = 17;
  const std::int64_t n_digits = value.point - scale;
  if (n_digits > kMaxDigits) return std::nullopt;
  std::string digits = value.digits.substr(0, std::max<std::int64_t>(n_digits, 0));
  is_exact = digits.size() == value.digits.size();
  if (n_digits > 0) digits.append(n_digits - digits.size(), '0');
  const auto magnitude = digits.empty() ? 0 : static_cast<std::int64_t>(std::stoll(digits));
  return value.negative ? -magnitude : magnitude;
}

}  // namespace

std::optional<Divisor> SplitDivisor(const Decimal& value) {
  if (value.IsZero() || value.negative || value.digits.size() > 18) return std::nullopt;
  Divisor divisor{.factor = std::strtoull(value.digits.c_str(), nullptr, 10),
                  .scale = value.point - static_cast<std::int64_t>(value.digits.size())};
  if (divisor.factor > kMaxRemainders || std::abs(divisor.scale) > kMaxScale) return std::nullopt;
  return divisor;
}

Divisors::Divisors(const std::vector<Decimal>& multiples, const std::vector<Decimal>& others) {
  for (const Decimal& value : multiples) {
    if (const auto divisor = SplitDivisor(value)) multiples_.push_back(*divisor);
  }
  for (const Decimal& value : others) {
    if (const auto divisor = SplitDivisor(value)) others_.push_back(*divisor);
  }
  if (multiples_.size() == multiples.size() && others_.size() == others.size()) Combine();
}

// Combines all divisors as integers of the smallest scale.
void Divisors::Combine() {
  std::int64_t least = 0;
  for (const Divisor& divisor : multiples_) least = std::min(least, divisor.scale);
  for (const Divisor& divisor : others_) least = std::min(least, divisor.scale);
  const auto to_integer = [&](const Divisor& divisor) {
    return ShiftLeft(divisor.factor, divisor.scale - least);
  };
  std::uint64_t multiple = 1;
  for (const Divisor& divisor : multiples_) {
    const std::uint64_t integer = to_integer(divisor);
    multiple = integer > kMaxProduct ? 0 : LeastCommonMultiple(multiple, integer);
    if (multiple == 0) return;
  }
  std::uint64_t product = multiple;
  std::vector<std::pair<std::uint64_t, Divisor>> kept;
  for (const Divisor& divisor : others_) {
    const std::uint64_t integer = to_integer(divisor);
    if (integer > kMaxProduct) return;
    if (!multiples_.empty() && multiple % integer == 0) are_empty_ = true;
    kept.emplace_back(integer, divisor);
    product = product == 0 ? 0 : LeastCommonMultiple(product, integer);
  }
  has_example_ = product != 0 && std::ranges::none_of(kept, [&](const auto& of) {
                   return multiple % of.first == 0;
                 });
  period_ = {.factor = product, .scale = least};
  if (!multiples_.empty()) multiple_ = multiple;
  for (const auto& of : kept) excluded_.push_back(of.first);
  // A number that is no multiple of 3 is none of 6.
  std::ranges::sort(kept, {}, [](const auto& of) { return of.first; });
  others_.clear();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool follows = std::any_of(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const auto& of) { return kept[i].first % of.first == 0; });
    if (!follows) others_.push_back(kept[i].second);
  }
  Divisor all = {.factor = multiple, .scale = least};
  for (; all.factor % 10 == 0 && all.scale < 0; all.factor /= 10) ++all.scale;
  if (multiples_.size() > 1 && all.factor <= kMaxRemainders) multiples_ = {all};
}

// With every period another example follows. Fractions have at most 9 digits before the point, and
// 6 after it where the number must be no multiple.
bool Divisors::HaveAbove(std::int64_t n_digits) const {
  constexpr std::int64_t kFewDigits = 8;
  if (!has_example_) return false;
  if (period_.scale == 0) return n_digits <= kMaxScale / 2;
  return n_digits <= kFewDigits && -period_.scale <= 6 &&
         period_.factor < ShiftLeft(1, kFewDigits - period_.scale);
}

std::optional<std::vector<Decimal>> Divisors::Between(const Decimal& low, const Decimal& high,
                                                      std::size_t most) const {
  constexpr std::int64_t kMaxTried = 4'096;
  // Digits of fractions that doubles keep apart from their neighbours.
  constexpr std::int64_t kMaxWholeDigits = 9;
  constexpr std::int64_t kMaxFractionDigits = 6;
  if (period_.scale < 0 &&
      (std::max(low.point, high.point) > kMaxWholeDigits || -period_.scale > kMaxFractionDigits)) {
    return std::nullopt;
  }
  bool low_is_exact = false;
  bool high_is_exact = false;
  const auto first = ToInteger(low, period_.scale, low_is_exact);
  const auto last = ToInteger(high, period_.scale, high_is_exact);
  if (multiple_ == 0 || !first || !last) return std::nullopt;
  const auto step = static_cast<std::int64_t>(multiple_);
  const std::int64_t n_tried = *last / step - *first / step + 1;
  if (n_tried > kMaxTried) return std::nullopt;
  std::vector<Decimal> numbers;
  for (std::int64_t n = *first / step; n <= *last / step; ++n) {
    const std::int64_t number = n * step;
    const bool is_below = number < *first || (number == *first && !low_is_exact && !low.negative);
    const bool is_above = number > *last || (number == *last && !high_is_exact && high.negative);
    if (is_below || is_above) continue;
    const auto magnitude = static_cast<std::uint64_t>(std::abs(number));
    if (std::ranges::any_of(excluded_, [&](auto of) { return magnitude % of == 0; })) continue;
    if (numbers.size() == most) return std::nullopt;
    numbers.push_back(*ParseDecimal(std::to_string(number) + "e" + std::to_string(period_.scale)));
  }
  return numbers;
}

}  // namespace fathom::constraint
