#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "constraint/lists.h"
#include "constraint/schema/value_algebra.h"

namespace fathom::constraint {
namespace {

using PropertyIndex = std::unordered_map<std::string_view, std::size_t>;

PropertyIndex IndexProperties(const ObjectShape& shape) {
  PropertyIndex index;
  for (std::size_t i = 0; i < shape.properties.size(); ++i) {
    index.emplace(shape.properties[i].name, i);
  }
  return index;
}

// Appends a layer; layers without patterns become one.
void AddLayer(GoalTable& goals, std::vector<KeyLayer>& layers, const KeyLayer& layer) {
  for (KeyLayer& known : layers) {
    if (known == layer) return;
    if (known.patterns.empty() && layer.patterns.empty()) {
      known.others = goals.Both(known.others, layer.others);
      return;
    }
  }
  layers.push_back(layer);
}

}  // namespace

GoalId ValueAlgebra::OtherPropertyValue(const ObjectShape& shape, std::string_view name) {
  for (const std::vector<StringShape>& names : shape.names) {
    if (std::ranges::none_of(names,
                             [&](const StringShape& keys) { return tests_.Matches(keys, name); })) {
      return kNeverGoal;
    }
  }
  GoalId value = kAnyGoal;
  for (const KeyLayer& layer : shape.layers) {
    bool matched = false;
    for (const KeyPattern& pattern : layer.patterns) {
      if (!tests_.Matches(pattern.keys, name)) continue;
      matched = true;
      value = goals_.Both(value, pattern.value);
    }
    if (!matched) value = goals_.Both(value, layer.others);
  }
  return value;
}

GoalId ValueAlgebra::PropertyValue(const ObjectShape& shape, std::string_view name) {
  const PropertyShape* property = shape.Find(name);
  return property != nullptr ? property->value : OtherPropertyValue(shape, name);
}

std::optional<ObjectShape> ValueAlgebra::Intersect(const ObjectShape& a, const ObjectShape& b) {
  ObjectShape both{.layers = a.layers,
                   .names = a.names,
                   .minimum = std::max(a.minimum, b.minimum),
                   .maximum = std::min(a.maximum, b.maximum),
                   .demands = a.demands,
                   .has_properties = a.has_properties || b.has_properties,
                   .explicit_additional = a.explicit_additional || b.explicit_additional,
                   .evaluated_patterns = a.evaluated_patterns,
                   .evaluates_all = a.evaluates_all || b.evaluates_all};
  std::set_union(a.evaluated_names.begin(), a.evaluated_names.end(), b.evaluated_names.begin(),
                 b.evaluated_names.end(), std::back_inserter(both.evaluated_names));
  AddAll(both.evaluated_patterns, b.evaluated_patterns);
  const PropertyIndex in_a = IndexProperties(a);
  const PropertyIndex in_b = IndexProperties(b);
  std::uint32_t n_required = 0;
  const auto add = [&](PropertyShape property) {
    if (property.required) {
      if (property.value == kNeverGoal) return false;
      ++n_required;
    }
    both.properties.push_back(std::move(property));
    return true;
  };
  for (const PropertyShape& property : a.properties) {
    PropertyShape merged = property;
    if (const auto found = in_b.find(property.name); found != in_b.end()) {
      const PropertyShape& other = b.properties[found->second];
      merged.value = Both(property.value, other.value);
      merged.required |= other.required;
      merged.declared |= other.declared;
    } else {
      merged.value = Both(property.value, OtherPropertyValue(b, property.name));
    }
    if (!add(std::move(merged))) return std::nullopt;
  }
  for (const PropertyShape& property : b.properties) {
    if (in_a.count(property.name) != 0) continue;
    PropertyShape merged = property;
    merged.value = Both(OtherPropertyValue(a, property.name), property.value);
    if (!add(std::move(merged))) return std::nullopt;
  }
  for (const KeyLayer& layer : b.layers) AddLayer(goals_, both.layers, layer);
  for (const auto& names : b.names) AddNew(both.names, names);
  for (const MemberDemand& demand : b.demands) AddNew(both.demands, demand);
  if (both.minimum > both.maximum || n_required > both.maximum) return std::nullopt;
  return both;
}

bool ValueAlgebra::AreDisjoint(const ObjectShape& a, const ObjectShape& b, int nesting) {
  if (std::max(a.minimum, b.minimum) > std::min(a.maximum, b.maximum)) return true;
  const auto differ = [&](const ObjectShape& one, const ObjectShape& other) {
    for (const PropertyShape& property : one.properties) {
      if (!report_.Spend(1)) return false;
      if (property.required &&
          AreDisjointGoals(property.value, PropertyValue(other, property.name), nesting)) {
        return true;
      }
    }
    return false;
  };
  return differ(a, b) || differ(b, a);
}

std::optional<std::vector<ObjectShape>> ValueAlgebra::PlainContrary(const ObjectShape& shape) {
  std::vector<ObjectShape> rest;
  for (const PropertyShape& property : shape.properties) {
    if (!property.required) continue;
    rest.push_back({.properties = {{.name = property.name, .value = kNeverGoal}}});
    for (const GoalId wrong : goals_.Negations(property.value)) {
      rest.push_back({.properties = {{.name = property.name, .value = wrong, .required = true}}});
    }
  }
  if (rest.empty()) return std::nullopt;
  return rest;
}

std::vector<StringShape> ValueAlgebra::KeysOutside(const std::vector<StringShape>& names) {
  std::vector<StringShape> keys = {{}};
  for (const StringShape& shape : names) {
    std::vector<StringShape> rest;
    for (const StringShape& contrary : StringPredicates::Complement(shape)) {
      for (const StringShape& before : keys) {
        if (!report_.Spend(1)) return {};
        if (auto both = tests_.Intersect(before, contrary)) rest.push_back(std::move(*both));
      }
    }
    keys = std::move(rest);
  }
  return keys;
}

std::optional<ObjectShape> ValueAlgebra::Contrary(const MemberDemand& demand) {
  const std::vector<GoalId> wrong = goals_.Negations(demand.value);
  if (wrong.size() > 1 || demand.keys.tests.size() > 1) return std::nullopt;
  if (demand.keys.minimum > 0 || demand.keys.maximum != kNoMaximum) return std::nullopt;
  const GoalId value = wrong.empty() ? kNeverGoal : wrong[0];
  ObjectShape shape;
  for (const std::string& name : demand.names) shape.properties.push_back({.name = name});
  if (demand.keys.tests.empty()) {
    shape.layers.push_back({.others = value});
  } else {
    shape.layers.push_back({.patterns = {{.keys = demand.keys.tests[0], .value = value}}});
  }
  return shape;
}

std::optional<std::vector<ObjectShape>> ValueAlgebra::Complement(const ObjectShape& shape) {
  std::vector<ObjectShape> rest;
  if (shape.minimum > 0) rest.push_back({.maximum = shape.minimum - 1});
  if (shape.maximum != kNoMaximum) rest.push_back({.minimum = shape.maximum + 1});
  std::vector<std::string> known;
  for (const PropertyShape& property : shape.properties) {
    known.push_back(property.name);
    if (property.required) {
      rest.push_back({.properties = {{.name = property.name, .value = kNeverGoal}}});
    }
    for (const GoalId wrong : goals_.Negations(property.value)) {
      rest.push_back({.properties = {{.name = property.name, .value = wrong, .required = true}}});
    }
  }
  std::sort(known.begin(), known.end());
  const auto demand = [&](StringShape keys, GoalId value) {
    rest.push_back({.demands = {{.names = known, .keys = std::move(keys), .value = value}}});
  };
  for (const std::vector<StringShape>& names : shape.names) {
    for (StringShape& keys : KeysOutside(names)) demand(std::move(keys), kAnyGoal);
  }
  for (const KeyLayer& layer : shape.layers) {
    StringShape unmatched;
    for (const KeyPattern& pattern : layer.patterns) {
      const StringShape matching{.tests = {pattern.keys}};
      for (const GoalId wrong : goals_.Negations(pattern.value)) demand(matching, wrong);
      unmatched.tests.push_back({.entry = pattern.keys.entry, .negated = !pattern.keys.negated});
    }
    std::sort(unmatched.tests.begin(), unmatched.tests.end());
    for (const GoalId wrong : goals_.Negations(layer.others)) demand(unmatched, wrong);
  }
  for (const MemberDemand& met : shape.demands) {
    std::optional<ObjectShape> contrary = Contrary(met);
    if (!contrary) return std::nullopt;
    rest.push_back(std::move(*contrary));
  }
  return rest;
}

}  // namespace fathom::constraint
