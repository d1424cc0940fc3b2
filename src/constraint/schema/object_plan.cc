#include <algorithm>

#include "constraint/lists.h"
#include "constraint/schema/container_plans.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxKeyClasses = 64;

// The tests of all layers, each once.
std::vector<StringPredicate> ListTests(const std::vector<KeyLayer>& layers) {
  std::vector<StringPredicate> tests;
  for (const KeyLayer& layer : layers) {
    for (const KeyPattern& pattern : layer.patterns) AddNew(tests, pattern.keys);
  }
  return tests;
}

}  // namespace

std::vector<ObjectPlan> ContainerPlanner::PlanObject(const ObjectShape& shape, GoalId goal) {
  pointer_ = reader_.Pointer(goal);
  std::vector<Variant> variants = {{.shape = shape}};
  if (!shape.demands.empty()) NameDemandedKeys(variants[0].shape);
  for (const MemberDemand& demand : shape.demands) {
    std::vector<Variant> ways;
    for (Variant& variant : variants) MeetByProperties(demand, std::move(variant), ways);
    variants = std::move(ways);
  }
  std::vector<ObjectPlan> plans;
  for (const Variant& variant : variants) {
    if (report_.failed()) break;
    plans.push_back(PlanOne(variant));
    if (plans.back().minimum > plans.back().maximum) plans.pop_back();
  }
  return plans;
}

std::vector<ContainerPlanner::MatchedKeys> ContainerPlanner::SplitByTests(
    std::vector<StringShape> keys, const std::vector<StringPredicate>& tests) {
  std::vector<MatchedKeys> classes;
  for (StringShape& shape : keys) classes.push_back({.keys = std::move(shape)});
  constexpr std::size_t kFewClasses = 8;  // up to so many are not searched for texts
  for (const StringPredicate test : tests) {
    std::vector<MatchedKeys> split;
    for (const MatchedKeys& before : classes) {
      for (const bool matches : {true, false}) {
        const StringShape side{
            .tests = {{.entry = test.entry, .negated = test.negated == matches}}};
        auto keys_of_both = tests_.Intersect(before.keys, side);
        if (!keys_of_both) continue;
        if (classes.size() >= kFewClasses &&
            (!report_.Spend(kSurveyCost) || tests_.Survey(*keys_of_both, 0).empty)) {
          continue;
        }
        split.push_back({.keys = std::move(*keys_of_both), .matched = before.matched});
        split.back().matched.push_back(matches);
      }
    }
    classes = std::move(split);
    if (classes.size() > kMaxKeyClasses) {
      report_.Fail(ConstraintErrorCode::kTooLarge, pointer_, "patternProperties",
                   "expected patterns that overlap in at most 64 ways");
      return {};
    }
  }
  return classes;
}

std::vector<KeyClass> ContainerPlanner::ClassifyOthers(const ObjectShape& shape) {
  std::vector<StringShape> keys = {{}};
  for (const std::vector<StringShape>& names : shape.names) {
    std::vector<StringShape> both;
    for (const StringShape& a : keys) {
      for (const StringShape& b : names) {
        if (!report_.Spend(1)) return {};
        if (auto shape_of_both = tests_.Intersect(a, b)) both.push_back(std::move(*shape_of_both));
      }
    }
    keys = std::move(both);
  }
  const std::vector<StringPredicate> tests = ListTests(shape.layers);
  std::vector<KeyClass> classes;
  for (MatchedKeys& matched : SplitByTests(std::move(keys), tests)) {
    GoalId value = kAnyGoal;
    for (const KeyLayer& layer : shape.layers) {
      bool any = false;
      for (const KeyPattern& pattern : layer.patterns) {
        const auto test = std::find(tests.begin(), tests.end(), pattern.keys) - tests.begin();
        if (!matched.matched[static_cast<std::size_t>(test)]) continue;
        any = true;
        value = reader_.goals().Both(value, pattern.value);
      }
      if (!any) value = reader_.goals().Both(value, layer.others);
    }
    if (value != kNeverGoal) classes.push_back({.keys = std::move(matched.keys), .value = value});
  }
  return classes;
}

// Ascending undeclared keys could run out before there are enough of them.
void ContainerPlanner::NeedExtendableKeys(const ObjectPlan& plan, std::size_t n_required) {
  if (plan.others.empty() || (plan.minimum <= n_required + 1 && plan.minimum_others <= 1)) return;
  const bool extendable = std::ranges::any_of(plan.others, [&](const KeyClass& keys) {
    return keys.keys.maximum == kNoMaximum &&
           std::ranges::all_of(keys.keys.tests, [&](StringPredicate test) {
             return test.negated && tests_.FindLiterals(test) != nullptr;
           });
  });
  if (!extendable) {
    report_.Unsupported(pointer_, "minProperties",
                        "expected other keys of any text in unique items");
  }
}

ObjectPlan ContainerPlanner::PlanOne(const Variant& variant) {
  const ObjectShape& shape = variant.shape;
  ObjectPlan plan{.minimum = shape.minimum, .maximum = shape.maximum};
  std::vector<PropertyShape> optional;
  std::vector<PropertyShape> required;
  for (const PropertyShape& property : shape.properties) {
    plan.excluded.push_back(property.name);
    if (property.value == kNeverGoal) continue;
    if (property.declared) {
      plan.properties.push_back(property);
    } else {
      (property.required ? required : optional).push_back(property);
    }
  }
  AddAll(plan.properties, required);
  for (KeyClass& keys : ClassifyOthers(shape)) {
    TextSurvey survey;
    if (!keys.keys.IsFree() && report_.Spend(kSurveyCost)) {
      survey = tests_.Survey(keys.keys, kMaxListedKeys);
    }
    if (survey.empty) continue;
    const bool all_named =
        survey.finite && std::ranges::all_of(survey.texts, [&](const std::string& name) {
          return shape.Find(name) != nullptr;
        });
    if (all_named) continue;
    if (!survey.finite || options_.canonical) {
      plan.others.push_back(std::move(keys));
      continue;
    }
    for (const std::string& name : survey.texts) {
      if (shape.Find(name) != nullptr) continue;
      plan.excluded.push_back(name);
      optional.push_back({.name = name, .value = keys.value});
    }
  }
  AddAll(plan.properties, optional);
  PlanDemands(variant, plan);
  if (IsClosed(shape, plan.properties.size())) plan.others.clear();
  const std::size_t n_required = CountRequired(plan.properties);
  if (options_.canonical) NeedExtendableKeys(plan, n_required);
  const bool too_few =
      plan.others.empty() && (plan.minimum > plan.properties.size() || plan.minimum_others > 0);
  if (too_few || n_required + plan.minimum_others > plan.maximum) {
    plan.minimum = 1;
    plan.maximum = 0;  // no object
  }
  return plan;
}

}  // namespace fathom::constraint
