#include <algorithm>

#include "constraint/schema/value_set.h"

namespace fathom {
namespace {

constexpr std::size_t kBytesPerGoal = 160;  // in the table, its index and other caches
constexpr std::size_t kTermsPerStep = 16;

}  // namespace

GoalId GoalTable::Intern(std::vector<GoalTerm> terms) {
  if (terms.empty()) return kAnyGoal;
  meter_.Spend(terms.size());
  for (const GoalTerm& term : terms) {
    GoalTerm opposite = term;
    opposite.negated = !term.negated;
    if (term.negated && std::find(terms.begin(), terms.end(), opposite) != terms.end()) {
      return kNeverGoal;
    }
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
  for (const GoalTerm& term : terms_[b]) {
    if (std::find(terms.begin(), terms.end(), term) == terms.end()) terms.push_back(term);
  }
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

}  // namespace fathom
