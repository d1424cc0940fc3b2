#include "constraint/grammar/automaton.h"

#include <algorithm>

#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kExpressionsPerState = 8;
constexpr std::size_t kMaxListedBytes = std::size_t{1} << 20;
// The steps for all bytes of a state whose next states are known.
constexpr std::uint64_t kStepsForAllBytes = 16;
// The facts and details of a state, its entry by expression and the data of KindSearch, with room
// for twice as many.
constexpr std::size_t kBytesPerState = 120;

}  // namespace

Automaton::Automaton(ExpressionPool& pool, std::size_t max_states)
    : pool_(pool),
      meter_(pool.meter()),
      classes_(pool.ByteClasses()),
      n_classes_(static_cast<std::size_t>(pool.n_byte_classes())),
      max_states_(max_states),
      kinds_(classes_) {
  pool.SetLimit(kExpressionsPerState * max_states);
  Start(pool.Nothing());
  std::ranges::fill(rows_, kDeadState);
}

Automaton::~Automaton() { meter_.Release(n_bytes_); }

void Automaton::Keep(std::size_t bytes) {
  n_bytes_ += bytes;
  meter_.Keep(bytes);
}

StateId Automaton::Start(ExpressionId expression) {
  const ExpressionId live = pool_.Prune(expression);
  if (pool_.exceeded()) exhausted_ = true;
  const StateId known = states_.Find(live);
  if (known != IdMap::kNone) return known;
  if (exhausted_ || facts_.size() > max_states_) {
    exhausted_ = true;
    return kDeadState;
  }
  meter_.Spend(1);
  Keep(kBytesPerState + 2 * n_classes_ * sizeof(StateId));
  const auto made = static_cast<StateId>(facts_.size());
  states_.Set(live, made);
  details_.emplace_back();
  facts_.push_back({.expression = live, .accepts = pool_.IsNullable(live)});
  rows_.resize(rows_.size() + n_classes_, kUnknown);
  return made;
}

StateId Automaton::Make(StateId state, std::uint8_t byte) {
  const StateId made = Start(pool_.DeriveByte(facts_[state].expression, byte));
  return rows_[state * n_classes_ + classes_[byte]] = made;
}

std::span<const LetterEdge> Automaton::Edges(StateId state) {
  if (details_[state].first_edge == kNoEdges) {
    std::vector<LetterEdge> found;
    for (const Letter letter : pool_.FirstLetters(facts_[state].expression)) {
      const StateId target = Start(pool_.DeriveLetter(facts_[state].expression, letter));
      if (target != kDeadState) found.push_back({letter, target});
    }
    Details& details = details_[state];
    details.first_edge = static_cast<std::uint32_t>(edges_.size());
    details.n_edges = static_cast<std::uint32_t>(found.size());
    AddAll(edges_, found);
    Keep(2 * found.size() * sizeof(LetterEdge));
  }
  const Details& details = details_[state];
  return std::span(edges_).subspan(details.first_edge, details.n_edges);
}

bool Automaton::TakesBytes(StateId state) {
  const Facts facts = facts_[state];
  if (!pool_.MayTakeBytes(facts.expression)) return false;
  if (!pool_.HasBooleans(facts.expression)) return true;
  if (!details_[state].takes_bytes.has_value()) {
    meter_.Spend(kStepsForAllBytes);
    bool takes = false;
    for (unsigned byte = 0; byte < 256 && !takes; ++byte) {
      takes = Next(state, static_cast<std::uint8_t>(byte)) != kDeadState;
    }
    details_[state].takes_bytes = takes;
  }
  return *details_[state].takes_bytes;
}

StateId Automaton::OverApproximated(StateId state) {
  return Start(pool_.OverApproximate(facts_[state].expression));
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

}  // namespace fathom::constraint
