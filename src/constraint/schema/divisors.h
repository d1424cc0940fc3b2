// Divisors: combines the divisors of multipleOf and of its negation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "constraint/schema/decimal.h"

namespace fathom::constraint {

inline constexpr std::uint32_t kMaxRemainders = 10'000;  // states of a remainder automaton

// A divisor as factor * 10^scale.
struct Divisor {
  std::uint64_t factor = 0;
  std::int64_t scale = 0;
};

// nullopt: not positive, or more remainders than an automaton may have.
std::optional<Divisor> SplitDivisor(const Decimal& value);

// The numbers that are multiples of each of some divisors and of none of some others.
class Divisors {
 public:
  // Leaves out divisors that follow from others. The multiples of several become the multiples of
  // their least common multiple, if an automaton may have this divisor.
  Divisors(const std::vector<Decimal>& multiples, const std::vector<Decimal>& others);

  const std::vector<Divisor>& multiples() const { return multiples_; }
  const std::vector<Divisor>& others() const { return others_; }
  // True if no number is left, whatever the bounds are: each multiple of multiples() is a multiple
  // of one of others(), too.
  bool AreEmpty() const { return are_empty_; }
  // True if plainly a number with a short text is left above every number with `n_digits` digits
  // before its point.
  bool HaveAbove(std::int64_t n_digits) const;
  // The numbers from `low` to `high` that are left, ascending, if there are at most `most` of them
  // among few multiples; nullopt if there are more, or if finding them takes a long search.
  std::optional<std::vector<Decimal>> Between(const Decimal& low, const Decimal& high,
                                              std::size_t most) const;

 private:
  void Combine();

  std::vector<Divisor> multiples_;
  std::vector<Divisor> others_;
  bool are_empty_ = false;
  // Set if the least common multiple of multiples_ is a multiple of none of others_.
  bool has_example_ = false;
  Divisor period_{};  // the distance after which multiples_ and others_ repeat
  // The divisors as integers in the scale of period_; 0: unknown.
  std::uint64_t multiple_ = 0;
  std::vector<std::uint64_t> excluded_;
};

}  // namespace fathom::constraint
