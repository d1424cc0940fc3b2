#include "constraint/grammar/automaton.h"

#include <algorithm>
#include <optional>

#include "constraint/grammar/expression_impl.h"
#include "constraint/grammar/kind_search.h"

namespace fathom {
namespace {

constexpr std::size_t kExpressionsPerState = 8;
constexpr std::size_t kMaxListedBytes = std::size_t{1} << 20;
constexpr std::uint32_t kNoEdges = 0xFFFFFFFF;
// The steps for all bytes of a state whose next states are known.
constexpr std::uint64_t kStepsForAllBytes = 16;
// The facts and details of a state, its entry by expression and the data of KindSearch, with room
// for twice as many.
constexpr std::size_t kBytesPerState = 120;

// Facts about a state beyond its derivatives.
struct StateDetails {
  std::uint32_t first_edge = kNoEdges;
  std::uint32_t n_edges = 0;
  std::optional<bool> takes_bytes;
};

}  // namespace

struct Automaton::Impl {
  IdMap states;  // by expression
  std::vector<StateDetails> details;
  std::vector<LetterEdge> edges;
  KindSearch kinds;
};

Automaton::Automaton(ExpressionPool& pool, std::size_t max_states)
    : pool_(pool),
      meter_(pool.meter()),
      classes_(pool.ByteClasses()),
      n_classes_(static_cast<std::size_t>(pool.n_byte_classes())),
      max_states_(max_states),
      impl_(std::make_unique<Impl>(Impl{.kinds = KindSearch(classes_)})) {
  pool.SetLimit(kExpressionsPerState * max_states);
  InternState(pool.Nothing());
  std::ranges::fill(rows_, kDeadState);
}

Automaton::~Automaton() { meter_.Release(n_bytes_); }

void Automaton::Keep(std::size_t bytes) {
  n_bytes_ += bytes;
  meter_.Keep(bytes);
}

StateId Automaton::InternState(ExpressionId expression) {
  const ExpressionId live = pool_.Prune(expression);
  if (pool_.exceeded()) exhausted_ = true;
  const StateId known = impl_->states.Find(live);
  if (known != IdMap::kNone) return known;
  if (exhausted_ || facts_.size() > max_states_) {
    exhausted_ = true;
    return kDeadState;
  }
  meter_.Spend(1);
  Keep(kBytesPerState + 2 * n_classes_ * sizeof(StateId));
  const auto made = static_cast<StateId>(facts_.size());
  impl_->states.Set(live, made);
  impl_->details.emplace_back();
  facts_.push_back({.expression = live, .accepts = pool_.IsNullable(live)});
  rows_.resize(rows_.size() + n_classes_, kUnknown);
  return made;
}

StateId Automaton::Start(ExpressionId expression) { return InternState(expression); }

StateId Automaton::Make(StateId state, std::uint8_t byte) {
  const StateId made = InternState(pool_.DeriveByte(facts_[state].expression, byte));
  return rows_[state * n_classes_ + classes_[byte]] = made;
}

std::span<const LetterEdge> Automaton::Edges(StateId state) {
  if (impl_->details[state].first_edge == kNoEdges) {
    std::vector<Letter> letters;
    pool_.FirstLetters(facts_[state].expression, letters);
    std::vector<LetterEdge> found;
    for (const Letter letter : letters) {
      const StateId target = InternState(pool_.DeriveLetter(facts_[state].expression, letter));
      if (target != kDeadState) found.push_back({letter, target});
    }
    StateDetails& details = impl_->details[state];
    details.first_edge = static_cast<std::uint32_t>(impl_->edges.size());
    details.n_edges = static_cast<std::uint32_t>(found.size());
    impl_->edges.insert(impl_->edges.end(), found.begin(), found.end());
    Keep(2 * found.size() * sizeof(LetterEdge));
  }
  const StateDetails& details = impl_->details[state];
  return std::span(impl_->edges).subspan(details.first_edge, details.n_edges);
}

bool Automaton::TakesBytes(StateId state) {
  const Facts facts = facts_[state];
  if (!pool_.MayTakeBytes(facts.expression)) return false;
  if (!pool_.HasBooleans(facts.expression)) return true;
  if (!impl_->details[state].takes_bytes.has_value()) {
    meter_.Spend(kStepsForAllBytes);
    bool takes = false;
    for (unsigned byte = 0; byte < 256 && !takes; ++byte) {
      takes = Next(state, static_cast<std::uint8_t>(byte)) != kDeadState;
    }
    impl_->details[state].takes_bytes = takes;
  }
  return *impl_->details[state].takes_bytes;
}

CharacterClasses Automaton::AcceptedClasses(StateId state) {
  return impl_->kinds.Find(*this, state);
}

StateId Automaton::OverApproximated(StateId state) {
  return InternState(pool_.OverApproximate(facts_[state].expression));
}

bool Automaton::ListTexts(StateId state, std::size_t most, std::vector<std::string>& texts) {
  texts.clear();
  struct Level {
    StateId state;
    unsigned next_byte;
  };
  std::vector<Level> path;  // the text so far leads through these states
  IdMap on_path;
  std::string text;
  std::size_t n_bytes = 0;
  // False if too many texts go on from here.
  const auto enter = [&](StateId at) {
    // Any state can reach acceptance: a cycle means infinitely many texts.
    const std::uint32_t known = on_path.Find(at);
    if ((known != IdMap::kNone && known != 0) || !Edges(at).empty()) return false;
    if ((n_bytes += 1 + text.size() / 8) > kMaxListedBytes) return false;
    if (facts_[at].accepts) {
      if (texts.size() == most || (n_bytes += text.size()) > kMaxListedBytes) return false;
      texts.push_back(text);
    }
    meter_.Spend(kStepsForAllBytes);
    on_path.Set(at, 1);
    path.push_back({at, 0});
    return true;
  };
  if (state != kDeadState && !enter(state)) return false;
  while (!path.empty()) {
    Level& top = path.back();
    if (top.next_byte == 256) {
      on_path.Set(top.state, 0);
      path.pop_back();
      if (!text.empty()) text.pop_back();
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(top.next_byte++);
    const StateId next = Next(top.state, byte);
    if (next == kDeadState) continue;
    text.push_back(static_cast<char>(byte));
    if (!enter(next)) return false;
  }
  return !exhausted();
}

}  // namespace fathom
