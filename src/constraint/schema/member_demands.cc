// Objects in which some member must have a key and a value of some kind: the negation of what
// patternProperties, additionalProperties and propertyNames assert about all members.
#include <algorithm>

#include "constraint/lists.h"
#include "constraint/schema/container_plans.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxWays = 2'000;
constexpr std::size_t kMaxOpenDemands = 3;  // demands on other members; each set is distinguished

// The demands of a set: bit i stands for all[i].
std::vector<const MemberDemand*> Subset(const std::vector<const MemberDemand*>& all,
                                        std::size_t set) {
  std::vector<const MemberDemand*> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((set >> i & 1) != 0) chosen.push_back(all[i]);
  }
  return chosen;
}

bool IsFree(const MemberDemand& demand) { return demand.keys.IsFree() && demand.value == kAnyGoal; }

}  // namespace

std::vector<KeyClass> ContainerPlanner::MeetDemands(
    const std::vector<KeyClass>& others, const std::vector<const MemberDemand*>& demands) {
  std::vector<KeyClass> met;
  for (const KeyClass& keys : others) {
    KeyClass both = keys;
    bool possible = true;
    for (const MemberDemand* demand : demands) {
      auto shape = tests_.Intersect(both.keys, demand->keys);
      possible = possible && shape.has_value();
      if (!possible) break;
      both.keys = std::move(*shape);
      both.value = reader_.algebra().Both(both.value, demand->value);
    }
    if (!possible || both.value == kNeverGoal) continue;
    if (!both.keys.IsFree() && report_.Spend(kSurveyCost) && tests_.Survey(both.keys, 0).empty) {
      continue;
    }
    met.push_back(std::move(both));
  }
  return met;
}

void ContainerPlanner::NameDemandedKeys(ObjectShape& shape) {
  const auto add = [&](const std::string& name) {
    if (shape.Find(name) != nullptr || !report_.Spend(shape.properties.size())) return;
    shape.properties.push_back(
        {.name = name, .value = reader_.algebra().OtherPropertyValue(shape, name)});
  };
  for (const MemberDemand& demand : shape.demands) {
    for (const std::string& name : demand.names) add(name);
  }
  // A member with finitely many possible keys might find all of them taken.
  const std::vector<KeyClass> others = ClassifyOthers(shape);
  const auto list = [&](const std::vector<KeyClass>& classes) {
    for (const KeyClass& keys : classes) {
      if (keys.keys.IsFree() || !report_.Spend(kSurveyCost)) continue;
      const TextSurvey survey = tests_.Survey(keys.keys, kMaxListedKeys);
      if (!survey.finite) continue;
      for (const std::string& name : survey.texts) add(name);
    }
  };
  list(others);
  std::vector<const MemberDemand*> demands;
  for (const MemberDemand& demand : shape.demands) demands.push_back(&demand);
  if (demands.size() > kMaxOpenDemands) {
    for (const MemberDemand* demand : demands) list(MeetDemands(others, {demand}));
    return;
  }
  for (std::size_t set = 1; set < (std::size_t{1} << demands.size()); ++set) {
    list(MeetDemands(others, Subset(demands, set)));
  }
}

void ContainerPlanner::MeetByProperties(const MemberDemand& demand, Variant variant,
                                        std::vector<Variant>& ways) {
  for (std::size_t i = 0; i < variant.shape.properties.size(); ++i) {
    const PropertyShape& property = variant.shape.properties[i];
    if (!report_.Spend(variant.shape.properties.size())) return;
    if (property.value == kNeverGoal ||
        std::binary_search(demand.names.begin(), demand.names.end(), property.name) ||
        !tests_.Matches(demand.keys, property.name)) {
      continue;
    }
    const GoalId value = reader_.algebra().Both(property.value, demand.value);
    if (value == kNeverGoal) continue;
    if (property.required && value == property.value) {  // it meets the demand anyway
      ways.push_back(std::move(variant));
      return;
    }
    if (ways.size() >= kMaxWays) {
      report_.FailCombinations();
      return;
    }
    Variant with = variant;
    with.shape.properties[i].required = true;
    with.shape.properties[i].value = value;
    ways.push_back(std::move(with));
  }
  variant.open.push_back(demand);
  ways.push_back(std::move(variant));
}

void ContainerPlanner::PlanDemands(const Variant& variant, ObjectPlan& plan) {
  std::vector<const MemberDemand*> demands;
  for (const MemberDemand& demand : variant.open) {
    if (IsFree(demand)) {
      plan.minimum_others = 1;
    } else {
      demands.push_back(&demand);
    }
  }
  if (demands.empty()) return;
  // A wanted member comes on top of the required ones.
  if (plan.minimum <= CountRequired(plan.properties) + 1) plan.minimum = 0;
  const bool counted = plan.minimum > 0 || plan.maximum != kNoMaximum;
  if (demands.size() > kMaxOpenDemands || counted || options_.canonical) {
    report_.Unsupported(pointer_, "not", "expected fewer demands on members of any key");
    return;
  }
  plan.minimum_others = 0;  // a wanted member is one of the others already
  plan.wanted.resize(std::size_t{1} << demands.size());
  for (std::size_t set = 1; set < plan.wanted.size(); ++set) {
    plan.wanted[set] = MeetDemands(plan.others, Subset(demands, set));
  }
}

}  // namespace fathom::constraint
