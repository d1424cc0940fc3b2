#include <algorithm>
#include <set>
#include <string_view>

#include "constraint/grammar/automaton.h"
#include "constraint/schema/container_plans.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxContains = 3;
constexpr std::uint32_t kMaxUniqueItems = 256;

// Counts the numbers in the shapes if there are at most `most`.
std::optional<std::size_t> CountNumbers(const std::vector<NumberShape>& numbers, std::size_t most,
                                        WorkMeter& meter) {
  ExpressionPool pool(&meter);
  std::vector<ExpressionId> texts;
  for (const NumberShape& shape : numbers) texts.push_back(NumberText(pool, shape, true));
  const ExpressionId all = pool.Or(texts);
  if (all == pool.Nothing()) return 0;
  constexpr std::size_t kMaxStates = 10'000;
  Automaton automaton(pool, kMaxStates);
  std::vector<std::string> listed;
  if (!automaton.ListTexts(automaton.Start(all), most, listed)) return std::nullopt;
  return listed.size();
}

}  // namespace

std::optional<std::size_t> ContainerPlanner::CountScalars(const ValueSet& values,
                                                          std::size_t most) {
  std::set<std::string_view> strings;  // shapes may overlap
  for (const StringShape& shape : values.strings) {
    if (shape.tests.empty() && shape.maximum > 1) return std::nullopt;
    const TextSurvey& survey = tests_.Survey(shape, most);
    if (!survey.finite) return std::nullopt;
    strings.insert(survey.texts.begin(), survey.texts.end());
    if (strings.size() > most) return std::nullopt;
  }
  const std::optional<std::size_t> numbers =
      CountNumbers(values.numbers, most - strings.size(), report_.meter());
  if (!numbers) return std::nullopt;
  const std::size_t n = strings.size() + *numbers + (values.null ? 1 : 0) +
                        (values.true_value ? 1 : 0) + (values.false_value ? 1 : 0);
  return n <= most ? std::optional(n) : std::nullopt;
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

bool ContainerPlanner::HasMany(GoalId goal, std::size_t n, int nesting) {
  constexpr int kMaxNestedCounts = 4;
  if (n <= 1) return !reader_.Resolve(goal).IsEmpty();
  if (nesting > kMaxNestedCounts || !report_.Spend(1)) return false;
  const std::tuple key(goal, n, nesting);
  if (const auto known = has_many_.find(key); known != has_many_.end()) return known->second;
  const bool has_many = SearchMany(goal, n, nesting);
  has_many_.emplace(key, has_many);
  return has_many;
}

bool ContainerPlanner::SearchMany(GoalId goal, std::size_t n, int nesting) {
  const ValueSet& values = reader_.Resolve(goal);
  const std::optional<std::size_t> scalars = CountScalars(values, n);
  if (!scalars || *scalars >= n) return true;
  const auto has_values = [&](GoalId of) { return !reader_.Resolve(of).IsEmpty(); };
  for (const OrderedShape& object : Ordered(goal)) {
    const std::vector<PropertyShape>& properties = object.shape.properties;
    const bool possible = std::ranges::all_of(properties, [&](const PropertyShape& property) {
      return !property.required || has_values(property.value);
    });
    if (!possible || object.shape.maximum != kNoMaximum) continue;
    const bool open = !IsClosed(object.shape, properties.size()) &&
                      std::ranges::any_of(object.others, has_values);
    if (open || std::ranges::any_of(properties, [&](const PropertyShape& property) {
          return HasMany(property.value, n, nesting + 1);
        })) {
      return true;
    }
  }
  return std::ranges::any_of(values.arrays, [&](const ArrayShape& array) {
    const bool endless = array.maximum == kNoMaximum && array.prefix.empty() && !array.unique;
    return endless && array.contains.empty() && has_values(array.rest);
  });
}

// True if any `n_before` values at earlier places leave at least one value of the goal. `empty`:
// set to true if provably they may leave none.
bool ContainerPlanner::LeavesChoices(GoalId goal, std::uint32_t n_before, bool& empty) {
  const ValueSet& values = reader_.Resolve(goal);
  const bool scalar = values.arrays.empty() && values.objects.empty();
  if (!scalar) return HasMany(goal, n_before + 1, 0);
  const std::optional<std::size_t> count = CountScalars(values, n_before);
  empty = count.has_value();
  return !empty;
}

// Places that need not be filled may have no value left: the matcher then takes no comma.
bool ContainerPlanner::PlanUnique(const ArrayShape& shape, ArrayPlan& plan) {
  if (plan.maximum <= 1) return true;
  if (!shape.contains.empty()) {
    report_.Unsupported(pointer_, "uniqueItems", "expected no `contains` beside it");
    return true;
  }
  const auto n_prefix = static_cast<std::uint32_t>(shape.prefix.size());
  for (std::uint32_t i = 0; i < std::min(plan.maximum, n_prefix + 1); ++i) {
    if (HasOneText(shape.ItemAt(i))) continue;
    report_.Unsupported(pointer_, "uniqueItems",
                        "expected items whose objects have their keys in one order, and no "
                        "`contains` within");
    return true;
  }
  if (plan.minimum > kMaxUniqueItems) {
    report_.Unsupported(pointer_, "uniqueItems", "expected at most 256 items");
    return true;
  }
  for (std::uint32_t i = plan.minimum; i-- > 1;) {
    bool empty = false;
    if (LeavesChoices(shape.ItemAt(i), i, empty)) {
      if (i > n_prefix) i = n_prefix + 1;  // the same goal, with fewer values before it
      continue;
    }
    if (empty && n_prefix == 0) return false;
    report_.Unsupported(pointer_, "uniqueItems", "expected places with more values than places");
    return true;
  }
  plan.unique = true;
  plan.maximum = std::min(plan.maximum, kMaxUniqueItems);
  for (std::uint32_t i = 0; i < std::min(plan.maximum, n_prefix + 1); ++i) {
    if (HasMany(shape.ItemAt(i), kMaxUniqueItems, 0)) continue;
    const ValueSet& values = reader_.Resolve(shape.ItemAt(i));
    const bool scalar = values.arrays.empty() && values.objects.empty();
    const std::optional<std::size_t> count =
        scalar && n_prefix == 0 ? CountScalars(values, kMaxUniqueItems) : std::nullopt;
    if (count) plan.maximum = std::min(plan.maximum, static_cast<std::uint32_t>(*count));
    plan.tight = plan.tight || !count;
  }
  return true;
}

std::optional<ArrayPlan> ContainerPlanner::PlanArray(const ArrayShape& shape, GoalId goal) {
  pointer_ = reader_.Pointer(goal);
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

}  // namespace fathom::constraint
