// IsWithin: shapes within others. It reads the demands of shapes only, never the values of goals.
#include <algorithm>

#include "constraint/lists.h"
#include "constraint/schema/value_algebra.h"

namespace fathom::constraint {
namespace {

template <class Item>
bool HasAll(const std::vector<Item>& list, const std::vector<Item>& items) {
  return items.size() <= list.size() &&
         std::ranges::all_of(items, [&](const Item& item) { return Contains(list, item); });
}

}  // namespace

bool ValueAlgebra::IsWithin(GoalId a, GoalId b) const {
  if (a == b || a == kNeverGoal || b == kAnyGoal) return true;
  if (a == kAnyGoal || b == kNeverGoal) return false;
  return HasAll(goals_.terms(a), goals_.terms(b));
}

bool ValueAlgebra::IsWithin(const NumberShape& a, const NumberShape& b) const {
  return (b.kind == NumberShape::Kind::kAny || a.kind == b.kind) && (!b.low || a.low == b.low) &&
         (!b.high || a.high == b.high) && HasAll(a.multiples, b.multiples) &&
         HasAll(a.non_multiples, b.non_multiples);
}

bool ValueAlgebra::IsWithin(const StringShape& a, const StringShape& b) const {
  return a.minimum >= b.minimum && a.maximum <= b.maximum &&
         std::includes(a.tests.begin(), a.tests.end(), b.tests.begin(), b.tests.end());
}

bool ValueAlgebra::IsWithin(const ArrayShape& a, const ArrayShape& b) const {
  if (a.minimum < b.minimum || a.maximum > b.maximum || (b.unique && !a.unique)) return false;
  // Enclosing keywords depend on the evaluated items.
  if (a.n_evaluated != b.n_evaluated || a.evaluates_all != b.evaluates_all) return false;
  if (!HasAll(a.contains, b.contains) || !IsWithin(a.rest, b.rest)) return false;
  for (std::size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    if (i < a.maximum && !IsWithin(a.ItemAt(i), b.ItemAt(i))) return false;
  }
  return true;
}

bool ValueAlgebra::IsWithin(const ObjectShape& a, const ObjectShape& b) const {
  if (a.minimum < b.minimum || a.maximum > b.maximum) return false;
  if (a.evaluates_all != b.evaluates_all || a.evaluated_names != b.evaluated_names ||
      a.evaluated_patterns != b.evaluated_patterns) {
    return false;
  }
  for (const PropertyShape& property : b.properties) {
    if (property.value == kAnyGoal && !property.required) continue;
    const PropertyShape* const known = a.Find(property.name);
    if (known == nullptr || (property.required && !known->required) ||
        !IsWithin(known->value, property.value)) {
      return false;
    }
  }
  if (!HasAll(a.layers, b.layers) || !HasAll(a.names, b.names) || !HasAll(a.demands, b.demands)) {
    return false;
  }
  // Such shapes may be closed (PlanOptions::closed_objects): they have no keys but the named ones.
  const bool may_be_closed = b.has_properties && !b.explicit_additional;
  if (may_be_closed && !(a.has_properties && !a.explicit_additional && a.minimum == b.minimum &&
                         a.layers == b.layers && a.names == b.names && a.demands == b.demands)) {
    return false;
  }
  // Demands of b on keys that it does not name must hold where a names them.
  if (b.layers.empty() && b.names.empty() && !may_be_closed) return true;
  return std::ranges::all_of(a.properties, [&](const PropertyShape& property) {
    return property.value == kNeverGoal || b.Find(property.name) != nullptr;
  });
}

}  // namespace fathom::constraint
