#include "constraint/schema/value_set.h"

#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kBytesPerGoal = 160;  // in the table, its index and other caches
constexpr std::size_t kTermsPerStep = 16;

std::size_t BytesOf(const NumberShape& shape) {
  return sizeof(shape) + (shape.multiples.size() + shape.non_multiples.size()) * sizeof(Decimal);
}

std::size_t BytesOf(const StringShape& shape) {
  return sizeof(shape) + shape.tests.size() * sizeof(StringPredicate);
}

std::size_t BytesOf(const ArrayShape& shape) {
  return sizeof(shape) + shape.prefix.size() * sizeof(GoalId) +
         shape.contains.size() * sizeof(ContainsShape);
}

std::size_t BytesOf(const ObjectShape& shape) {
  std::size_t n = sizeof(shape) + shape.properties.size() * sizeof(PropertyShape) +
                  shape.evaluated_names.size() * sizeof(std::string) +
                  shape.evaluated_patterns.size() * sizeof(StringPredicate);
  for (const PropertyShape& property : shape.properties) n += property.name.size();
  for (const KeyLayer& layer : shape.layers) {
    n += sizeof(layer) + layer.patterns.size() * sizeof(KeyPattern);
  }
  for (const std::vector<StringShape>& names : shape.names) {
    for (const StringShape& name : names) n += BytesOf(name);
  }
  for (const MemberDemand& demand : shape.demands) {
    n += sizeof(demand) + demand.names.size() * sizeof(std::string);
  }
  return n;
}

}  // namespace

GoalId GoalTable::Intern(std::vector<GoalTerm> terms) {
  if (terms.empty()) return kAnyGoal;
  meter_.Spend(terms.size());
  for (const GoalTerm& term : terms) {
    GoalTerm opposite = term;
    opposite.negated = !term.negated;
    if (term.negated && Contains(terms, opposite)) return kNeverGoal;
  }
  const auto [found, is_new] = ids_.try_emplace(terms, static_cast<GoalId>(terms_.size()));
  if (is_new) {
    meter_.Keep(kBytesPerGoal + 2 * terms.size() * sizeof(GoalTerm));
    terms_.push_back(std::move(terms));
  }
  return found->second;
}

GoalId GoalTable::Both(GoalId a, GoalId b) {
  if (a == b || b == kAnyGoal) return a;
  if (a == kAnyGoal) return b;
  if (a == kNeverGoal || b == kNeverGoal) return kNeverGoal;
  meter_.Spend(terms_[a].size() * terms_[b].size() / kTermsPerStep);
  std::vector<GoalTerm> terms = terms_[a];
  for (const GoalTerm& term : terms_[b]) AddNew(terms, term);
  return Intern(std::move(terms));
}

std::vector<GoalId> GoalTable::Negations(GoalId goal) {
  if (goal == kAnyGoal) return {};
  if (goal == kNeverGoal) return {kAnyGoal};
  std::vector<GoalId> goals;
  const std::vector<GoalTerm> terms = terms_[goal];
  for (GoalTerm term : terms) {
    term.negated = !term.negated;
    goals.push_back(Of(term));
  }
  return goals;
}

std::size_t BytesOf(const ValueSet& values) {
  std::size_t n = sizeof(values);
  for (const NumberShape& shape : values.numbers) n += BytesOf(shape);
  for (const StringShape& shape : values.strings) n += BytesOf(shape);
  for (const ArrayShape& shape : values.arrays) n += BytesOf(shape);
  for (const ObjectShape& shape : values.objects) n += BytesOf(shape);
  return n;
}

}  // namespace fathom::constraint
