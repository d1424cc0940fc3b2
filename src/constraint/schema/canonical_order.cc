// One order of the keys of objects in unique items: two texts are then equal if and only if their
// values are.
//
// The shapes of one goal get the names of all these shapes in one order, and the undeclared keys
// follow in the order of their texts. A value that is in the shapes of two goals (for the same
// property of two shapes) has one text if both goals order the names that it may have in the same
// way.
#include <algorithm>
#include <set>

#include "constraint/schema/container_plans.h"

namespace fathom::constraint {
namespace {

// The names that objects of both shapes may have, in the order of `a`.
std::vector<std::string_view> SharedNames(ValueAlgebra& algebra, const ObjectShape& a,
                                          const ObjectShape& b) {
  std::vector<std::string_view> names;
  for (const PropertyShape& property : a.properties) {
    if (property.value == kNeverGoal) continue;
    if (algebra.PropertyValue(b, property.name) != kNeverGoal) names.push_back(property.name);
  }
  return names;
}

ValueSet OnlyObjects(const ObjectShape& shape) {
  ValueSet values;
  values.objects.push_back(shape);
  return values;
}

}  // namespace

bool ContainerPlanner::IsClosed(const ObjectShape& shape, std::size_t n_properties) const {
  return options_.closed_objects && shape.has_properties && !shape.explicit_additional &&
         shape.layers.empty() && shape.names.empty() && shape.demands.empty() &&
         shape.minimum <= n_properties;
}

const std::vector<ContainerPlanner::OrderedShape>& ContainerPlanner::Ordered(GoalId goal) {
  const auto [found, is_new] = ordered_.try_emplace(goal);
  if (!is_new) return found->second;
  const std::vector<ObjectShape>& shapes = reader_.Resolve(goal).objects;
  std::vector<std::string> names;
  std::set<std::string_view> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  // As in other objects: declared names, then required ones, then the rest.
  for (int turn = 0; turn < 3; ++turn) {
    for (const ObjectShape& shape : shapes) {
      for (const PropertyShape& property : shape.properties) {
        if (turn == 2 || (turn == 0 ? property.declared : property.required)) add(property.name);
      }
    }
  }
  for (const ObjectShape& shape : shapes) {
    for (const MemberDemand& demand : shape.demands) {
      for (const std::string& name : demand.names) add(name);
    }
  }
  std::vector<OrderedShape> ordered;
  for (const ObjectShape& shape : shapes) {
    if (!report_.Spend(names.size() * (shape.properties.size() + shape.layers.size() + 1))) break;
    OrderedShape in_order{.shape = shape};
    in_order.shape.properties.clear();
    for (const std::string& name : names) {
      const PropertyShape* const own = shape.Find(name);
      PropertyShape property{.name = name, .declared = true};
      if (own != nullptr) {
        property.value = own->value;
        property.required = own->required;
      } else {
        property.value = IsClosed(shape, shape.properties.size())
                             ? kNeverGoal
                             : reader_.algebra().OtherPropertyValue(shape, name);
      }
      in_order.shape.properties.push_back(std::move(property));
    }
    for (const KeyClass& keys : ClassifyOthers(shape)) in_order.others.push_back(keys.value);
    ordered.push_back(std::move(in_order));
  }
  std::vector<OrderedShape>& kept = ordered_[goal];
  kept = std::move(ordered);
  return kept;
}

std::vector<ObjectShape> ContainerPlanner::InOneOrder(GoalId goal) {
  std::vector<ObjectShape> shapes;
  for (const OrderedShape& ordered : Ordered(goal)) shapes.push_back(ordered.shape);
  return shapes;
}

bool ContainerPlanner::CompareObjects(const OrderedShape& a, const OrderedShape& b,
                                      std::vector<GoalPair>& more) {
  const std::size_t n = a.shape.properties.size() + b.shape.properties.size();
  if (!report_.Spend(n * (n + 1))) return false;
  ValueAlgebra& algebra = reader_.algebra();
  if (algebra.AreDisjoint(OnlyObjects(a.shape), OnlyObjects(b.shape))) return true;
  if (SharedNames(algebra, a.shape, b.shape) != SharedNames(algebra, b.shape, a.shape)) {
    return false;
  }
  for (const PropertyShape& property : a.shape.properties) {
    more.emplace_back(property.value, algebra.PropertyValue(b.shape, property.name));
  }
  for (const GoalId one : a.others) {
    for (const GoalId other : b.others) more.emplace_back(one, other);
  }
  return true;
}

bool ContainerPlanner::CompareArrays(const ArrayShape& a, const ArrayShape& b,
                                     std::vector<GoalPair>& more) {
  // Items that count for `contains` are written by other goals than items that do not.
  if (!a.contains.empty() || !b.contains.empty()) return false;
  const std::size_t n = std::max(a.prefix.size(), b.prefix.size());
  for (std::size_t i = 0; i <= n && report_.Spend(1); ++i) {
    more.emplace_back(a.ItemAt(i), b.ItemAt(i));
  }
  return true;
}

bool ContainerPlanner::CompareOrders(const GoalPair& goals, std::vector<GoalPair>& more) {
  const std::vector<OrderedShape> a = Ordered(goals.first);
  const std::vector<OrderedShape> b = Ordered(goals.second);
  const std::vector<ArrayShape> arrays_a = reader_.Resolve(goals.first).arrays;
  const std::vector<ArrayShape> arrays_b = reader_.Resolve(goals.second).arrays;
  const auto all = [](const auto& x, const auto& y, auto compare) {
    return std::ranges::all_of(x, [&](const auto& one) {
      return std::ranges::all_of(y, [&](const auto& other) { return compare(one, other); });
    });
  };
  return all(a, b,
             [&](const OrderedShape& x, const OrderedShape& y) {
               return CompareObjects(x, y, more);
             }) &&
         all(arrays_a, arrays_b,
             [&](const ArrayShape& x, const ArrayShape& y) { return CompareArrays(x, y, more); });
}

bool ContainerPlanner::HasOneText(GoalId goal) {
  if (const auto known = one_text_.find(goal); known != one_text_.end()) return known->second;
  std::set<GoalPair> visited;
  std::vector<GoalPair> open = {{goal, goal}};
  bool holds = true;
  while (!open.empty() && holds) {
    GoalPair goals = std::minmax(open.back().first, open.back().second);
    open.pop_back();
    if (goals.first == kNeverGoal || goals.second == kNeverGoal) continue;
    if (!visited.insert(goals).second) continue;
    holds = CompareOrders(goals, open) && !report_.failed();
  }
  one_text_.emplace(goal, holds);
  return holds;
}

}  // namespace fathom::constraint
