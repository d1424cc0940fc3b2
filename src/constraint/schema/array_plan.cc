#include <algorithm>

#include "constraint/automaton.h"
#include "constraint/schema/container_plans.h"

namespace fathom {
namespace {

constexpr std::size_t kMaxContains = 3;
constexpr std::uint32_t kMaxUniqueItems = 256;

}  // namespace

std::optional<std::size_t> ContainerPlanner::CountScalars(GoalId goal, std::size_t most) {
  const ValueSet& values = reader_.Resolve(goal);
  if (!values.arrays.empty() || !values.objects.empty()) return std::nullopt;
  ExpressionPool pool;
  TextWriter writer(pool, TextSpelling::kRaw);
  std::vector<ExpressionId> texts;
  for (const NumberShape& shape : values.numbers) texts.push_back(NumberText(pool, shape, true));
  for (const StringShape& shape : values.strings) {
    if (shape.tests.empty() && shape.maximum > 1) return std::nullopt;
    texts.push_back(pool.Concat(pool.Literal("\""), tests_.Express(writer, shape, true)));
  }
  const ExpressionId all = pool.Or(texts);
  constexpr std::size_t kMaxStates = 10'000;
  Automaton automaton(pool, kMaxStates);
  std::vector<std::string> listed;
  if (!automaton.ListTexts(automaton.Start(all), most, listed)) return std::nullopt;
  return listed.size() + (values.null ? 1 : 0) + (values.true_value ? 1 : 0) +
         (values.false_value ? 1 : 0);
}

bool ContainerPlanner::PlanContains(const ArrayShape& shape, ArrayPlan& plan) {
  if (shape.contains.size() > kMaxContains) {
    report_.Unsupported(pointer_, "contains", "expected at most 3 of them for an array");
    return false;
  }
  plan.contains = shape.contains;
  const std::size_t n_sets = std::size_t{1} << plan.contains.size();
  plan.items.clear();
  for (std::size_t i = 0; i <= shape.prefix.size(); ++i) {
    ItemChoices choices(n_sets);
    for (std::size_t set = 0; set < n_sets; ++set) {
      std::vector<GoalId> goals = {shape.ItemAt(i)};
      for (std::size_t c = 0; c < plan.contains.size(); ++c) {
        const ContainsShape& contains = plan.contains[c];
        // Items that are not counted may match all the same, unless there is a maximum.
        std::vector<GoalId> sides = {kAnyGoal};
        if ((set >> c & 1) != 0) {
          sides = {contains.item};
        } else if (contains.maximum != kNoMaximum) {
          sides = reader_.goals().Negations(contains.item);
        }
        std::vector<GoalId> both;
        for (const GoalId goal : goals) {
          for (const GoalId side : sides) both.push_back(reader_.goals().Both(goal, side));
        }
        goals = std::move(both);
      }
      goals.erase(std::remove(goals.begin(), goals.end(), kNeverGoal), goals.end());
      choices[set] = std::move(goals);
    }
    plan.items.push_back(std::move(choices));
  }
  return true;
}

bool ContainerPlanner::PlanUnique(const ArrayShape& shape, ArrayPlan& plan) {
  if (plan.maximum <= 1) return true;
  if (!shape.contains.empty()) {
    report_.Unsupported(pointer_, "uniqueItems", "expected no `contains` beside it");
    return true;
  }
  const std::uint32_t n_places =
      std::min<std::uint32_t>(plan.maximum, static_cast<std::uint32_t>(shape.prefix.size() + 1));
  for (std::uint32_t i = 0; i < n_places; ++i) {
    if (shape.ItemAt(i) == kNeverGoal) continue;
    const ValueSet& values = reader_.Resolve(shape.ItemAt(i));
    if (!values.arrays.empty() || !values.objects.empty() || plan.minimum > kMaxUniqueItems) {
      report_.Unsupported(pointer_, "uniqueItems",
                          "expected at most 256 strings, numbers, booleans and nulls");
      return true;
    }
  }
  plan.unique = true;
  plan.maximum = std::min(plan.maximum, kMaxUniqueItems);
  // Each place must leave a choice whatever stands before it.
  for (std::uint32_t i = 0; i < n_places; ++i) {
    const std::optional<std::size_t> count = CountScalars(shape.ItemAt(i), kMaxUniqueItems);
    if (!count) continue;
    if (i < shape.prefix.size()) {
      if (*count <= i) plan.maximum = std::min(plan.maximum, i);
    } else if (*count < plan.maximum) {
      plan.maximum = std::max(i, static_cast<std::uint32_t>(*count));
    }
  }
  if (plan.minimum <= plan.maximum) return true;
  if (!shape.prefix.empty()) {
    report_.Unsupported(pointer_, "uniqueItems", "expected places with more values than places");
  }
  return false;
}

std::optional<ArrayPlan> ContainerPlanner::PlanArray(const ArrayShape& shape, GoalId goal) {
  pointer_ = reader_.PointerOf(goal);
  ArrayPlan plan{.minimum = shape.minimum, .maximum = shape.maximum};
  if (shape.rest == kNeverGoal) {
    plan.maximum = std::min(plan.maximum, static_cast<std::uint32_t>(shape.prefix.size()));
  }
  if (!PlanContains(shape, plan)) {
    ArrayShape without = shape;
    without.contains.clear();
    if (report_.failed() || !PlanContains(without, plan)) return std::nullopt;
  }
  if (shape.unique && !PlanUnique(shape, plan)) return std::nullopt;
  if (plan.minimum > plan.maximum) return std::nullopt;
  return plan;
}

}  // namespace fathom
