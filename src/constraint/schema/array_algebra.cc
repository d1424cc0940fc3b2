#include <algorithm>

#include "constraint/lists.h"
#include "constraint/schema/value_algebra.h"

namespace fathom::constraint {

std::optional<ArrayShape> ValueAlgebra::Intersect(const ArrayShape& a, const ArrayShape& b) {
  ArrayShape both{.rest = Both(a.rest, b.rest),
                  .minimum = std::max(a.minimum, b.minimum),
                  .maximum = std::min(a.maximum, b.maximum),
                  .unique = a.unique || b.unique,
                  .contains = a.contains,
                  .n_evaluated = std::max(a.n_evaluated, b.n_evaluated),
                  .evaluates_all = a.evaluates_all || b.evaluates_all};
  const std::size_t n = std::max(a.prefix.size(), b.prefix.size());
  for (std::size_t i = 0; i < n; ++i) {
    const GoalId item = Both(a.ItemAt(i), b.ItemAt(i));
    if (item == kNeverGoal) {
      both.maximum = std::min(both.maximum, static_cast<std::uint32_t>(i));
      break;
    }
    both.prefix.push_back(item);
  }
  for (const ContainsShape& contains : b.contains) AddNew(both.contains, contains);
  if (both.minimum > both.maximum) return std::nullopt;
  return both;
}

bool ValueAlgebra::AreDisjoint(const ArrayShape& a, const ArrayShape& b, int nesting) {
  const std::optional<ArrayShape> both = Intersect(a, b);
  if (!both) return true;
  // The items that every array of both has.
  constexpr std::uint32_t kMaxTried = 16;
  const std::uint32_t n = std::min(both->minimum, kMaxTried);
  for (std::uint32_t i = 0; i < n; ++i) {
    if (AreDisjointGoals(a.ItemAt(i), b.ItemAt(i), nesting)) return true;
  }
  return false;
}

std::optional<std::vector<ArrayShape>> ValueAlgebra::Complement(const ArrayShape& shape) {
  if (shape.unique) return std::nullopt;
  std::vector<ArrayShape> rest;
  if (shape.minimum > 0) rest.push_back({.maximum = shape.minimum - 1});
  if (shape.maximum != kNoMaximum) rest.push_back({.minimum = shape.maximum + 1});
  for (std::size_t i = 0; i < shape.prefix.size(); ++i) {
    for (const GoalId wrong : goals_.Negations(shape.prefix[i])) {
      ArrayShape other{.minimum = static_cast<std::uint32_t>(i + 1)};
      other.prefix.assign(i, kAnyGoal);
      other.prefix.push_back(wrong);
      rest.push_back(std::move(other));
    }
  }
  if (shape.rest == kNeverGoal) {
    rest.push_back({.minimum = static_cast<std::uint32_t>(shape.prefix.size() + 1)});
  } else if (shape.rest != kAnyGoal) {
    if (!shape.prefix.empty()) return std::nullopt;
    for (const GoalId wrong : goals_.Negations(shape.rest)) {
      rest.push_back({.contains = {{.item = wrong}}});
    }
  }
  for (const ContainsShape& contains : shape.contains) {
    if (contains.minimum > 0) {
      ArrayShape fewer;
      fewer.contains = {{.item = contains.item, .minimum = 0, .maximum = contains.minimum - 1}};
      const std::vector<GoalId> wrong = goals_.Negations(contains.item);
      if (contains.minimum == 1 && wrong.size() <= 1) {
        fewer = {.rest = wrong.empty() ? kNeverGoal : wrong[0]};
      }
      rest.push_back(std::move(fewer));
    }
    if (contains.maximum != kNoMaximum) {
      rest.push_back({.contains = {{.item = contains.item, .minimum = contains.maximum + 1}}});
    }
  }
  return rest;
}

}  // namespace fathom::constraint
