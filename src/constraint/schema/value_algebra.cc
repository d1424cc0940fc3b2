#include "constraint/schema/value_algebra.h"

#include <algorithm>
#include <type_traits>

#include "constraint/lists.h"
#include "constraint/schema/schema_reader.h"

namespace fathom::constraint {
namespace {

// Shapes that are compared with each other when a list is tidied.
constexpr std::size_t kMaxCompared = 64;

// Shapes that express what a schema excludes. More of them would make a grammar that is slow.
constexpr std::size_t kMaxContraries = 2'000;
constexpr std::size_t kMaxExclusive = 300;  // shapes of a branch of oneOf
// Shapes of the intersection of several cases with several others; with one case on a side there
// may be more. Where so many arise, they double with each keyword.
constexpr std::size_t kMaxMultiplied = 2'000;

bool IsAnnotated(const NumberShape&) { return false; }
bool IsAnnotated(const StringShape&) { return false; }
bool IsAnnotated(const ArrayShape& shape) { return shape.n_evaluated > 0 || shape.evaluates_all; }
bool IsAnnotated(const ObjectShape& shape) {
  return !shape.evaluated_names.empty() || !shape.evaluated_patterns.empty() || shape.evaluates_all;
}

template <class Shape>
void TidyShapes(std::vector<Shape>& shapes) {
  const bool annotated =
      std::ranges::any_of(shapes, [](const Shape& shape) { return IsAnnotated(shape); });
  if (!annotated && Contains(shapes, Shape())) {
    shapes.assign(1, Shape());
    return;
  }
  std::vector<Shape> kept;
  for (Shape& shape : shapes) {
    const std::size_t first = kept.size() > kMaxCompared ? kept.size() - kMaxCompared : 0;
    if (std::find(kept.begin() + static_cast<std::ptrdiff_t>(first), kept.end(), shape) ==
        kept.end()) {
      kept.push_back(std::move(shape));
    }
  }
  shapes = std::move(kept);
}

std::size_t ShapeCost(const NumberShape&) { return 2; }
std::size_t ShapeCost(const StringShape& shape) { return 1 + shape.tests.size(); }
std::size_t ShapeCost(const ArrayShape& shape) { return 1 + shape.prefix.size(); }
std::size_t ShapeCost(const ObjectShape& shape) { return 2 + shape.properties.size(); }

bool IsSingleLiterals(const StringPredicates& tests, const StringShape& shape) {
  return shape.tests.size() == 1 && !shape.tests[0].negated && shape.minimum == 0 &&
         shape.maximum == kNoMaximum && tests.FindLiterals(shape.tests[0]) != nullptr;
}

}  // namespace

template <class Shape>
ValueAlgebra::Absorption ValueAlgebra::Absorb(const std::vector<Shape>& a,
                                              const std::vector<Shape>& b) {
  Absorption absorbed;
  if (a.size() < 2 || b.size() < 2) return absorbed;
  absorbed.of_a.assign(a.size(), Absorption::kNone);
  absorbed.of_b.assign(b.size(), Absorption::kNone);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (!report_.Spend(1)) return {};
      std::size_t& by_b = absorbed.of_a[i];
      std::size_t& by_a = absorbed.of_b[j];
      if (by_b == Absorption::kNone && IsWithin(a[i], b[j])) by_b = j;
      if (by_a == Absorption::kNone && IsWithin(b[j], a[i])) by_a = i;
    }
  }
  return absorbed;
}

template <class Shape>
std::vector<Shape> ValueAlgebra::IntersectAll(const std::vector<Shape>& a,
                                              const std::vector<Shape>& b, std::size_t most) {
  if (a.size() == 1 && a[0] == Shape()) return b;
  if (b.size() == 1 && b[0] == Shape()) return a;
  const Absorption absorbed = Absorb(a, b);
  std::vector<Shape> both;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (absorbed.Drops(i, j)) continue;
      if (!report_.Spend(ShapeCost(a[i]) + ShapeCost(b[j]))) return {};
      if (auto shape = Intersect(a[i], b[j])) both.push_back(std::move(*shape));
    }
    if (both.size() > most && both.size() > std::max(a.size(), b.size())) {
      report_.FailCombinations();
      return {};
    }
  }
  TidyShapes(both);
  return both;
}

template <class Shape, class ComplementOne>
std::optional<std::vector<Shape>> ValueAlgebra::ComplementAll(const std::vector<Shape>& shapes,
                                                              ComplementOne complement) {
  std::vector<Shape> rest = {Shape()};
  for (const Shape& shape : shapes) {
    std::optional<std::vector<Shape>> outside = complement(shape);
    if (!outside) return std::nullopt;
    rest = IntersectAll(rest, *outside);
    if (rest.size() > kMaxContraries) return std::nullopt;
  }
  return rest;
}

ValueSet ValueAlgebra::Intersect(const ValueSet& a, const ValueSet& b) {
  return {.null = a.null && b.null,
          .true_value = a.true_value && b.true_value,
          .false_value = a.false_value && b.false_value,
          .numbers = IntersectAll(a.numbers, b.numbers),
          .strings = IntersectAll(a.strings, b.strings),
          .arrays = IntersectAll(a.arrays, b.arrays),
          .objects = IntersectAll(a.objects, b.objects, kMaxMultiplied),
          .exact = a.exact && b.exact,
          .exact_containers = a.exact_containers && b.exact_containers};
}

GoalId ValueAlgebra::Both(GoalId a, GoalId b) {
  constexpr GoalId kTrivial = std::max(kAnyGoal, kNeverGoal);
  if (a == b || a <= kTrivial || b <= kTrivial) return goals_.Both(a, b);
  if (const auto known = both_.find({a, b}); known != both_.end()) return known->second;
  const GoalId both = BothListed(a, b);
  both_.emplace(std::pair(a, b), both);
  return both;
}

GoalId ValueAlgebra::BothListed(GoalId a, GoalId b) {
  const GoalId part_a = reader_.ListedPart(a);
  const GoalId part_b = reader_.ListedPart(b);
  const ValueSet* in_a = part_b == kAnyGoal ? nullptr : reader_.Listed(part_a);
  const ValueSet* in_b = in_a == nullptr ? nullptr : reader_.Listed(part_b);
  if (in_b == nullptr) return goals_.Both(a, b);
  ValueSet both = Intersect(*in_a, *in_b);
  if (both.IsEmpty()) return kNeverGoal;
  const bool has_order = !both.objects.empty() || !both.arrays.empty();
  if (!has_order && part_b == b && both == *in_a) return a;
  if (!has_order && part_a == a && both == *in_b) return b;
  const GoalId goal = goals_.Both(a, b);
  if (part_a == a && part_b == b) reader_.Remember(goal, std::move(both));
  return goal;
}

void ValueAlgebra::Append(ValueSet& a, const ValueSet& b) {
  a.null |= b.null;
  a.true_value |= b.true_value;
  a.false_value |= b.false_value;
  a.exact &= b.exact;
  a.exact_containers &= b.exact_containers;
  AddAll(a.numbers, b.numbers);
  AddAll(a.strings, b.strings);
  AddAll(a.arrays, b.arrays);
  AddAll(a.objects, b.objects);
}

void ValueAlgebra::Tidy(ValueSet& set) {
  std::vector<std::string> literals;
  std::vector<StringShape> others;
  for (StringShape& shape : set.strings) {
    if (IsSingleLiterals(tests_, shape)) {
      AddAll(literals, *tests_.FindLiterals(shape.tests[0]));
    } else {
      others.push_back(std::move(shape));
    }
  }
  if (!literals.empty()) others.push_back({.tests = {tests_.Literals(std::move(literals))}});
  set.strings = std::move(others);
  TidyShapes(set.numbers);
  TidyShapes(set.strings);
  TidyShapes(set.arrays);
  TidyShapes(set.objects);
}

std::optional<ValueSet> ValueAlgebra::Complement(const ValueSet& set, const ValueSet& context) {
  const bool has_containers = !context.arrays.empty() || !context.objects.empty();
  if (!set.exact || (!set.exact_containers && has_containers)) return std::nullopt;
  ValueSet rest{.null = !set.null, .true_value = !set.true_value, .false_value = !set.false_value};
  const auto complement = [&](auto member) {
    if ((context.*member).empty()) return true;
    auto outside = ComplementAll(set.*member, [&](const auto& shape) { return Complement(shape); });
    if (outside) rest.*member = std::move(*outside);
    return outside.has_value();
  };
  if (!complement(&ValueSet::numbers) || !complement(&ValueSet::strings) ||
      !complement(&ValueSet::arrays) || !complement(&ValueSet::objects)) {
    return std::nullopt;
  }
  return rest;
}

template <class Shape>
bool ValueAlgebra::AreDisjoint(const std::vector<Shape>& a, const std::vector<Shape>& b,
                               int nesting, std::size_t steps) {
  for (const Shape& x : a) {
    for (const Shape& y : b) {
      if (!report_.Spend(steps) || !AreDisjoint(x, y, nesting)) return false;
    }
  }
  return true;
}

template <class Shape, class ComplementOne>
std::optional<std::vector<Shape>> ValueAlgebra::ExactlyOneOf(
    const std::vector<const ValueSet*>& sets, const std::vector<ValueSet>& within,
    std::vector<Shape> ValueSet::*member, ComplementOne complement) {
  std::vector<std::vector<std::size_t>> overlaps(sets.size());
  constexpr bool scalar = std::is_same_v<Shape, NumberShape> || std::is_same_v<Shape, StringShape>;
  bool exact = true;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    exact &= sets[i]->exact && (scalar || sets[i]->exact_containers);
    for (std::size_t j = 0; j < i; ++j) {
      if (report_.failed()) return std::nullopt;
      if (AreDisjoint(within[i].*member, within[j].*member, kMaxNesting, 2)) continue;
      overlaps[i].push_back(j);
      overlaps[j].push_back(i);
    }
  }
  std::vector<Shape> all;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::vector<Shape> only = sets[i]->*member;
    if (!overlaps[i].empty() && !exact) return std::nullopt;
    for (const std::size_t j : overlaps[i]) {
      const auto outside = ComplementAll(sets[j]->*member, complement);
      if (!outside || report_.failed()) return std::nullopt;
      if (only.size() * outside->size() > kMaxExclusive) return std::nullopt;
      only = IntersectAll(only, *outside);
    }
    AddAll(all, only);
  }
  return all;
}

std::optional<ValueSet> ValueAlgebra::ExactlyOne(const std::vector<const ValueSet*>& sets,
                                                 const ValueSet& context) {
  ValueSet one;
  int n_null = 0;
  int n_true = 0;
  int n_false = 0;
  std::vector<ValueSet> within;
  for (const ValueSet* set : sets) {
    n_null += set->null ? 1 : 0;
    n_true += set->true_value ? 1 : 0;
    n_false += set->false_value ? 1 : 0;
    one.exact &= set->exact;
    one.exact_containers &= set->exact_containers;
    within.push_back(Intersect(context, *set));
  }
  // A branch that is larger than the schema says may hide the only right one.
  if (!one.exact && (n_null > 1 || n_true > 1 || n_false > 1)) return std::nullopt;
  one.null = n_null == 1;
  one.true_value = n_true == 1;
  one.false_value = n_false == 1;
  const auto complement = [&](const auto& shape) { return Complement(shape); };
  auto numbers = ExactlyOneOf(sets, within, &ValueSet::numbers, complement);
  auto strings = ExactlyOneOf(sets, within, &ValueSet::strings, complement);
  auto arrays = ExactlyOneOf(sets, within, &ValueSet::arrays, complement);
  auto objects = ExactlyOneOf(sets, within, &ValueSet::objects, complement);
  if (!objects && !report_.failed()) {
    objects = ExactlyOneOf(sets, within, &ValueSet::objects,
                           [&](const ObjectShape& shape) { return PlainContrary(shape); });
    one.exact_containers = false;
  }
  if (!numbers || !strings || !arrays || !objects) return std::nullopt;
  one.numbers = std::move(*numbers);
  one.strings = std::move(*strings);
  one.arrays = std::move(*arrays);
  one.objects = std::move(*objects);
  Tidy(one);
  return one;
}

bool ValueAlgebra::AreDisjoint(const NumberShape& a, const NumberShape& b, int /*nesting*/) {
  const std::optional<NumberShape> both = constraint::Intersect(a, b);
  return !both || IsEmptyShape(*both, report_.meter());
}

bool ValueAlgebra::AreDisjoint(const StringShape& a, const StringShape& b, int /*nesting*/) {
  const std::optional<StringShape> both = tests_.Intersect(a, b);
  return !both ||
         (both->tests.size() > 1 && report_.Spend(kMaxCompared) && tests_.Survey(*both, 0).empty);
}

bool ValueAlgebra::AreDisjointGoals(GoalId a, GoalId b, int nesting) {
  if (a == kNeverGoal || b == kNeverGoal) return true;
  if (a == kAnyGoal || b == kAnyGoal || a == b || nesting == 0) return false;
  if (reader_.IsOpen(a) || reader_.IsOpen(b)) return false;
  return AreDisjoint(reader_.Resolve(a), reader_.Resolve(b), nesting - 1);
}

bool ValueAlgebra::AreDisjoint(const ValueSet& a, const ValueSet& b, int nesting) {
  if ((a.null && b.null) || (a.true_value && b.true_value) || (a.false_value && b.false_value)) {
    return false;
  }
  return AreDisjoint(a.numbers, b.numbers, nesting, 1) &&
         AreDisjoint(a.strings, b.strings, nesting, 1) &&
         AreDisjoint(a.arrays, b.arrays, nesting, 1) &&
         AreDisjoint(a.objects, b.objects, nesting, 1);
}

}  // namespace fathom::constraint
