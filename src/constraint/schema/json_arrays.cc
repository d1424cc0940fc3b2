// Arrays as expressions.
#include <algorithm>
#include <map>

#include "constraint/schema/grammar_writer.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxCountedStates = 20'000;

std::uint32_t SaturatingMinus(std::uint32_t a, std::uint32_t b) { return a > b ? a - b : 0; }
std::uint32_t MaximumMinus(std::uint32_t maximum, std::uint32_t n) {
  return maximum == kNoMaximum ? kNoMaximum : maximum - n;
}

// How many items were counted for each `contains`, as one number.
class ContainsCounter {
 public:
  explicit ContainsCounter(const std::vector<ContainsShape>& contains) : contains_(contains) {
    for (const ContainsShape& shape : contains) {
      const std::uint32_t top = shape.maximum == kNoMaximum ? shape.minimum : shape.maximum;
      radix_.push_back(std::size_t{top} + 1);
      n_states_ = std::min(n_states_ * radix_.back(), kMaxCountedStates + 1);
    }
  }
  std::size_t n_states() const { return n_states_; }

  // The counts after one more item of the set; nullopt above a maximum.
  std::optional<std::size_t> Next(std::size_t state, std::size_t set) const {
    std::size_t next = 0;
    std::size_t unit = 1;
    for (std::size_t i = 0; i < radix_.size(); ++i, state /= radix_[i - 1]) {
      std::size_t count = state % radix_[i];
      if ((set >> i & 1) != 0 && ++count == radix_[i]) {
        if (contains_[i].maximum != kNoMaximum) return std::nullopt;
        --count;
      }
      next += count * unit;
      unit *= radix_[i];
    }
    return next;
  }
  bool IsComplete(std::size_t state) const {
    for (std::size_t i = 0; i < radix_.size(); ++i, state /= radix_[i - 1]) {
      if (state % radix_[i] < contains_[i].minimum) return false;
    }
    return true;
  }

 private:
  const std::vector<ContainsShape>& contains_;
  std::vector<std::size_t> radix_;
  std::size_t n_states_ = 1;
};

}  // namespace

ExpressionId GrammarWriter::WriteItem(const ArrayPlan& plan, const std::vector<GoalId>& choices) {
  std::vector<ExpressionId> items;
  for (const GoalId goal : choices) {
    items.push_back(plan.unique ? UniqueValue(goal) : Value(goal));
  }
  return rules_.pool().Or(items);
}

ExpressionId GrammarWriter::Array(const ArrayPlan& plan) {
  return plan.contains.empty() ? PlainItems(plan) : CountedItems(plan);
}

ExpressionId GrammarWriter::PlainItems(const ArrayPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  const auto n_prefix = static_cast<std::uint32_t>(plan.items.size() - 1);
  std::vector<ExpressionId> items;
  std::uint32_t maximum = plan.maximum;
  for (std::uint32_t i = 0; i <= n_prefix && i < maximum; ++i) {
    items.push_back(WriteItem(plan, plan.At(i)[0]));
    if (items.back() == pool.Nothing()) maximum = i;
  }
  if (plan.minimum > maximum) return pool.Nothing();
  const bool may_be_empty = plan.minimum == 0;
  if (maximum == 0)
    return Enclose(pool, rules_.punctuation().blank, "[]", pool.Nothing(), may_be_empty);
  // First the items after the prefix, whose last item precedes them; then the prefix from its end.
  ExpressionId rest = pool.Empty();
  const ExpressionId comma = plan.tight ? pool.Concat(rules_.punctuation().blank, pool.Literal(","))
                                        : rules_.punctuation().comma;
  const std::uint32_t n_first = std::max<std::uint32_t>(1, n_prefix);
  if (maximum > n_first) {
    rest = pool.Repeat(pool.Concat(comma, items[n_prefix]), SaturatingMinus(plan.minimum, n_first),
                       MaximumMinus(maximum, n_first));
  }
  for (std::uint32_t i = std::min(n_first, maximum) - 1; i > 0; --i) {
    rest = pool.Concat({comma, items[i], rest});
    if (i >= plan.minimum) rest = pool.Optional(rest);
  }
  return Enclose(pool, rules_.punctuation().blank, "[]", pool.Concat(items[0], rest), may_be_empty);
}

ExpressionId GrammarWriter::CountedItems(const ArrayPlan& plan) {
  ExpressionPool& pool = rules_.pool();
  const ContainsCounter counter(plan.contains);
  const std::size_t n_sets = plan.items[0].size();
  const bool endless = plan.maximum == kNoMaximum;
  // A maximum ends the array, also within the prefix.
  const std::size_t n_places =
      std::max<std::size_t>({1, endless ? plan.items.size() - 1 : plan.maximum, plan.minimum});
  if (n_places * counter.n_states() > kMaxCountedStates) {
    report_.Fail(ConstraintErrorCode::kTooLarge, "", "contains",
                 "expected smaller bounds of items beside it");
    return pool.Nothing();
  }
  std::map<std::pair<std::size_t, std::size_t>, ExpressionId> written;  // by place and set
  const auto item = [&](std::size_t place, std::size_t set) {
    const std::size_t i = std::min(place, plan.items.size() - 1);
    const auto [found, is_new] = written.try_emplace({i, set}, 0);
    if (is_new) found->second = WriteItem(plan, plan.items[i][set]);
    return found->second;
  };
  // By counts: what may follow the items so far.
  std::vector<ExpressionId> rest(counter.n_states());
  for (std::size_t place = n_places + 1; place-- > 1;) {
    std::vector<ExpressionId> before(rest.size());
    for (std::size_t state = rest.size(); state-- > 0;) {
      std::vector<ExpressionId> choices;
      std::vector<ExpressionId> loop;
      if (place >= plan.minimum && counter.IsComplete(state)) choices.push_back(pool.Empty());
      for (std::size_t set = 0; set < n_sets && (place < n_places || endless); ++set) {
        const std::optional<std::size_t> next = counter.Next(state, set);
        if (!next) continue;
        const ExpressionId one = pool.Concat(rules_.punctuation().comma, item(place, set));
        if (place == n_places && *next == state) {
          loop.push_back(one);
        } else {
          choices.push_back(pool.Concat(one, place == n_places ? before[*next] : rest[*next]));
        }
      }
      before[state] = pool.Concat(pool.Repeat(pool.Or(loop), 0, kNoMaximum), pool.Or(choices));
    }
    rest = std::move(before);
  }
  std::vector<ExpressionId> choices;
  for (std::size_t set = 0; set < n_sets && plan.maximum > 0; ++set) {
    if (const auto next = counter.Next(0, set)) {
      choices.push_back(pool.Concat(item(0, set), rest[*next]));
    }
  }
  return Enclose(pool, rules_.punctuation().blank, "[]", pool.Or(choices),
                 plan.minimum == 0 && counter.IsComplete(0));
}

}  // namespace fathom::constraint
