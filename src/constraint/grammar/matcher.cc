#include "constraint/grammar/matcher.h"

#include <algorithm>
#include <unordered_map>

#include "constraint/grammar/frame_merger.h"
#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

// Beyond so many leaves, equal ones are found by hashes.
constexpr std::size_t kFewLeaves = 24;

bool IsToken(Letter letter) {
  return letter.kind == LetterKind::kToken || letter.kind == LetterKind::kOtherToken;
}

bool SamePlace(const Leaf& a, const Leaf& b) {
  return a.state == b.state && a.count == b.count && a.frame == b.frame &&
         Equal(a.memory.get(), b.memory.get());
}

// Keeps only the first of several leaves at the same place.
void RemoveRepeated(std::vector<Leaf>& leaves) {
  auto end = leaves.begin();
  for (auto at = leaves.begin(); at != leaves.end(); ++at) {
    const bool repeats =
        std::any_of(leaves.begin(), end, [&](const Leaf& kept) { return SamePlace(kept, *at); });
    if (repeats) continue;
    if (end != at) *end = std::move(*at);
    ++end;
  }
  leaves.erase(end, leaves.end());
}

std::uint64_t Hash(std::uint64_t first, std::uint64_t second, const FrameRef& frame) {
  std::uint64_t hash = first;
  hash = hash * 0x9E3779B97F4A7C15 + second;
  hash = hash * 0x9E3779B97F4A7C15 + reinterpret_cast<std::uintptr_t>(frame.column.get());
  hash = hash * 0x9E3779B97F4A7C15 + frame.index;
  return hash ^ (hash >> 29);
}

std::uint64_t Hash(const Leaf& leaf) { return Hash(leaf.state, leaf.count, leaf.frame); }

std::uint64_t Hash(std::size_t callee, const Return& back) {
  return Hash(back.state, callee, back.frame);
}

Ref<const Memory> WithMark(const Memory* memory, std::uint32_t mark) {
  auto* more = memory != nullptr ? new Memory(*memory) : new Memory();
  more->marks.resize(std::max<std::size_t>(more->marks.size(), mark / 64 + 1));
  more->marks[mark / 64] |= std::uint64_t{1} << (mark % 64);
  return Ref<const Memory>(more);
}

// The memory with the text of a scope that ends.
Ref<const Memory> WithText(const Memory* memory, const UniqueScope& scope, std::string text,
                           bool is_scratch) {
  auto* more = memory != nullptr ? new Memory(*memory) : new Memory();
  auto* seen = new SeenText();
  seen->text = std::move(text);
  seen->is_scratch = is_scratch;
  if (!scope.is_ascending) {
    seen->earlier = more->seen;
    seen->n = 1 + (more->seen ? more->seen->n : 0);
  }
  more->seen = Ref<const SeenText>(seen);
  return Ref<const Memory>(more);
}

// The leaf after an edge.
Leaf After(const Leaf& leaf, StateId target, Ref<const Memory> memory) {
  return {.state = target, .frame = leaf.frame, .memory = std::move(memory), .unique = leaf.unique};
}

bool HasMarks(const Leaf& leaf, const std::vector<std::uint32_t>& marks) {
  return std::ranges::all_of(
      marks, [&](std::uint32_t mark) { return leaf.memory && leaf.memory->Has(mark); });
}

}  // namespace

// Adds leaves to a state, with all places that are reached without a byte: entered rules, the
// places after rules that end, passed marks. Frames of rules that are entered here form one column.
class Matcher::Closure {
 public:
  Closure(Matcher& matcher, MatcherState& state)
      : matcher_(matcher),
        to_(state),
        step_limit_(matcher.n_steps_ + matcher.limits_.max_steps),
        pending_(matcher.pending_) {
    pending_.clear();
  }

  void Add(Leaf leaf) {
    matcher_.Charge(1);
    if (matcher_.n_steps_ > step_limit_ || pending_.size() >= matcher_.limits_.max_leaves) {
      matcher_.too_complex_ = true;
      return;
    }
    if (IsKnown(leaf)) return;
    pending_.push_back(std::move(leaf));
  }

  // Follows everything that was added. The leaves that can take a byte or a token become the state.
  void Run() {
    std::vector<std::size_t>& kept = matcher_.kept_;
    kept.clear();
    for (std::size_t i = 0; i < pending_.size() && !matcher_.too_complex_; ++i) {
      const std::uint8_t facts = matcher_.StateFacts(pending_[i].state);
      if ((facts & kAccepts) != 0) End(Leaf(pending_[i]));
      if ((facts & kHasEdges) != 0) Follow(Leaf(pending_[i]));
      if ((facts & (kTakesBytes | kTakesTokens)) != 0) kept.push_back(i);
    }
    to_.leaves.reserve(kept.size());
    for (const std::size_t i : kept) to_.leaves.push_back(std::move(pending_[i]));
    if (column_ && !matcher_.too_complex_) Merge();
  }

  // Adds the places after the rule of a leaf, which may end there.
  void End(const Leaf& leaf) {
    const Rule& rule = matcher_.grammar_.rules[FrameAt(leaf.frame).rule];
    if (rule.count && leaf.count < rule.count->minimum) return;
    const Ref<const UniqueScope> ended =
        FrameAt(leaf.frame).begins_scope ? FrameAt(leaf.frame).scope : Ref<const UniqueScope>();
    if (ended) {
      const std::vector<std::string_view>& rests = leaf.unique->rests;
      const bool repeats =
          std::ranges::any_of(rests, [](std::string_view rest) { return rest.empty(); });
      if (repeats || (ended->is_ascending && !rests.empty())) return;
    }
    Record(leaf.frame);
    if (ended && ended->depth == matcher_.searched_depth_) {
      matcher_.search_ended_ = true;
      return;
    }
    if (FrameAt(leaf.frame).rule == matcher_.root_) {
      to_.accepts = true;
      return;
    }
    if (IsHere(leaf.frame)) FrameAt(leaf.frame).ended_at_once = true;
    // The list may grow while it is followed.
    for (std::size_t r = 0; r < FrameAt(leaf.frame).returns.size(); ++r) {
      const Return back = FrameAt(leaf.frame).returns[r];
      if (ended) {
        Resume(back, leaf.frame.column, Remember(back, *ended, leaf.unique->Text()),
               leaf.unique->outer);
      } else {
        Resume(back, leaf.frame.column, back.memory, leaf.unique);
      }
    }
  }

  // Adds the places after the letters of a leaf that are no bytes.
  void Follow(const Leaf& leaf) {
    const std::span<const LetterEdge> view = matcher_.automaton_.Edges(leaf.state);
    const std::vector<LetterEdge> edges(view.begin(), view.end());
    for (const LetterEdge& edge : edges) {
      const auto [kind, value] = edge.letter;
      if (IsCall(edge.letter)) {
        Call(leaf, edge);
      } else if (kind == LetterKind::kMark && !(leaf.memory && leaf.memory->Has(value))) {
        Add(After(leaf, edge.target, WithMark(leaf.memory.get(), value)));
      } else if (kind == LetterKind::kNeed && HasMarks(leaf, matcher_.grammar_.needs[value])) {
        Add(After(leaf, edge.target, leaf.memory));
      }
    }
  }

 private:
  bool IsKnown(const Leaf& leaf) {
    if (pending_.size() < kFewLeaves) {
      return std::ranges::any_of(pending_,
                                 [&](const Leaf& known) { return SamePlace(known, leaf); });
    }
    if (by_hash_.empty()) {
      for (std::size_t i = 0; i < pending_.size(); ++i) by_hash_.emplace(Hash(pending_[i]), i);
    }
    const std::uint64_t hash = Hash(leaf);
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (SamePlace(pending_[at->second], leaf)) return true;
    }
    by_hash_.emplace(hash, pending_.size());
    return false;
  }

  bool IsHere(const FrameRef& frame) const { return frame.column == column_ && column_; }
  Frame& FrameAt(const FrameRef& ref) { return ref.column->frames[ref.index]; }

  void Record(const FrameRef& frame) {
    if (matcher_.recorded_ == nullptr || frame.column->is_scratch) return;
    AddNew(*matcher_.recorded_, frame);
  }

  Ref<const Memory> Remember(const Return& back, const UniqueScope& ended, std::string text) {
    return WithText(back.memory.get(), ended, std::move(text), matcher_.recorded_ != nullptr);
  }

  void Resume(const Return& back, const Ref<Column>& column, Ref<const Memory> memory,
              Ref<UniqueText> unique) {
    Add({.state = back.state,
         .frame = ReturnFrame(back, column),
         .memory = std::move(memory),
         .unique = std::move(unique)});
  }

  void Call(const Leaf& leaf, const LetterEdge& edge) {
    const RuleId rule = edge.letter.value;
    const bool begins_scope = edge.letter.kind != LetterKind::kCall;
    const RuleProperties& facts = matcher_.rules_[rule];
    if (matcher_.StartState(rule) == kDeadState || matcher_.automaton_.exhausted()) return;
    const int depth = FrameAt(leaf.frame).depth;
    if (depth + facts.height > matcher_.limits_.max_depth) return;
    // A call at the end of a rule returns to where the rule returns.
    const bool ends_rule = !begins_scope && !IsHere(leaf.frame) &&
                           !FrameAt(leaf.frame).begins_scope &&
                           FrameAt(leaf.frame).rule != matcher_.root_ &&
                           matcher_.StateFacts(edge.target) == (kKnown | kAccepts);
    const int depth_within = ends_rule ? depth : depth + (facts.is_recursive ? 1 : 0);
    const std::size_t callee =
        begins_scope
            ? EnterScope(leaf, edge.letter, depth_within)
            : Enter({.rule = rule, .depth = depth_within, .scope = FindScope(leaf)}, leaf.unique);
    if (ends_rule) {
      Record(leaf.frame);
      const std::vector<Return>& returns = FrameAt(leaf.frame).returns;
      for (const Return& back : returns) {
        Return further = back;
        if (!further.frame.column) further.frame.column = leaf.frame.column;
        AddReturn(callee, std::move(further), leaf.unique);
      }
      return;
    }
    Return back = {.state = edge.target, .frame = leaf.frame, .memory = leaf.memory};
    if (IsHere(leaf.frame)) back.frame.column = {};
    AddReturn(callee, std::move(back), leaf.unique);
  }

  // Redirects leaves and returns from new frames to the older frames that equal them.
  void Merge() {
    FrameMerger merger(column_, to_.leaves);
    std::vector<Frame>& frames = column_->frames;
    for (std::uint32_t i = 0; i < frames.size(); ++i) {
      if (matcher_.rules_[frames[i].rule].is_recursive) merger.Search(i);
    }
    matcher_.Charge(merger.steps());
    for (const FrameRef& frame : merger.read()) Record(frame);
    const auto redirect = [&](FrameRef& frame) {
      const FrameRef& older = merger.OlderThan(frame.index);
      if (!older.column) return false;
      frame = FrameRef(older);
      return true;
    };
    bool redirects = false;
    for (Leaf& leaf : to_.leaves) {
      if (IsHere(leaf.frame) && redirect(leaf.frame)) redirects = true;
    }
    for (Frame& frame : frames) {
      for (Return& back : frame.returns) {
        if (!back.frame.column) redirect(back.frame);
      }
    }
    if (redirects) RemoveRepeated(to_.leaves);
  }

  Ref<const UniqueScope> FindScope(const Leaf& leaf) { return FrameAt(leaf.frame).scope; }

  // The frame of a unique or ascending call.
  std::size_t EnterScope(const Leaf& leaf, Letter letter, int depth) {
    auto* scope = new UniqueScope();
    scope->outer = FindScope(leaf);
    scope->depth = scope->outer ? scope->outer->depth + 1 : 1;
    scope->is_ascending = letter.kind == LetterKind::kAscendingCall;
    if (leaf.memory) scope->seen = leaf.memory->seen;
    if (scope->seen && scope->seen->is_scratch) matcher_.reads_new_texts_ = true;
    Ref<const UniqueScope> owned(scope);
    Ref<UniqueText> text = UniqueText::Begin(*scope, leaf.unique);
    return Enter(
        {.rule = letter.value, .depth = depth, .scope = std::move(owned), .begins_scope = true},
        std::move(text));
  }

  // Finds the frame of a rule that is entered here, or makes it with its first leaf.
  std::size_t Enter(Frame frame, Ref<UniqueText> unique) {
    if (!column_) {
      column_ = Ref<Column>(new Column());
      column_->is_scratch = matcher_.recorded_ != nullptr;
    }
    std::vector<Frame>& frames = column_->frames;
    const auto found = std::ranges::find_if(frames, [&](const Frame& known) {
      if (known.rule != frame.rule || known.begins_scope != frame.begins_scope) return false;
      if (!frame.begins_scope) return known.scope == frame.scope;
      return known.scope->outer == frame.scope->outer &&
             known.scope->is_ascending == frame.scope->is_ascending &&
             Equal(known.scope->seen.get(), frame.scope->seen.get());
    });
    if (found != frames.end()) return static_cast<std::size_t>(found - frames.begin());
    const RuleId rule = frame.rule;
    frames.push_back(std::move(frame));
    Add({.state = matcher_.starts_[rule],
         .frame = {column_, static_cast<std::uint32_t>(frames.size() - 1)},
         .unique = std::move(unique)});
    return frames.size() - 1;
  }

  // `unique`: the texts where the frame begins, without the text of the frame's own scope.
  void AddReturn(std::size_t callee, Return back, const Ref<UniqueText>& unique) {
    matcher_.Charge(1);
    if (matcher_.n_steps_ > step_limit_) {
      matcher_.too_complex_ = true;
      return;
    }
    if (IsKnown(callee, back)) return;
    std::vector<Return>& returns = column_->frames[callee].returns;
    returns.push_back(back);
    if (returns.size() < kFewLeaves) return ResumeAtOnce(callee, back, unique);
    const std::size_t first = returns.size() == kFewLeaves ? 0 : returns.size() - 1;
    for (std::size_t i = first; i < returns.size(); ++i) {
      returns_by_hash_.emplace(Hash(callee, returns[i]), i);
    }
    ResumeAtOnce(callee, back, unique);
  }

  // True if the frame has the return.
  bool IsKnown(std::size_t callee, const Return& back) {
    const std::vector<Return>& returns = column_->frames[callee].returns;
    const auto is_same = [&](const Return& known) {
      return known.state == back.state && known.frame == back.frame &&
             Equal(known.memory.get(), back.memory.get());
    };
    if (returns.size() < kFewLeaves) return std::ranges::any_of(returns, is_same);
    const auto [first, last] = returns_by_hash_.equal_range(Hash(callee, back));
    return std::any_of(first, last, [&](const auto& at) {
      return at.second < returns.size() && is_same(returns[at.second]);
    });
  }

  void ResumeAtOnce(std::size_t callee, const Return& back, const Ref<UniqueText>& unique) {
    // The rule has matched the empty text already; a unique one has a text of its own to add.
    const Frame& frame = column_->frames[callee];
    if (frame.ended_at_once) {
      Resume(back, column_,
             frame.begins_scope ? Remember(back, *frame.scope, std::string()) : back.memory,
             unique);
    }
  }

  Matcher& matcher_;
  MatcherState& to_;
  const std::size_t step_limit_;
  std::vector<Leaf>& pending_;
  Ref<Column> column_;  // the frames of the rules that are entered here
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  // Indices of returns, for frames that have many.
  std::unordered_multimap<std::uint64_t, std::size_t> returns_by_hash_;
};

Matcher::Matcher(Grammar& grammar, const MatcherLimits& limits)
    : grammar_(grammar),
      limits_(limits),
      automaton_(grammar.pool, limits.max_states),
      root_(grammar.AddRule("root")) {
  grammar_.rules[root_].body = grammar_.start;
  rules_ = FindRuleProperties(grammar_);
  for (const RuleProperties& rule : rules_) {
    starts_.push_back(rule.matches ? kNotEntered : kDeadState);
    if (rule.matches) max_height_ = std::max(max_height_, rule.height);
  }
  StartState(root_);
}

std::uint8_t Matcher::FindFacts(StateId state) {
  if (state >= facts_.size()) facts_.resize(std::max<std::size_t>(state + 1, 2 * facts_.size()), 0);
  std::uint8_t facts = kKnown;
  if (automaton_.Accepts(state)) facts |= kAccepts;
  if (automaton_.TakesBytes(state)) facts |= kTakesBytes;
  for (const LetterEdge& edge : automaton_.Edges(state)) {
    facts |= IsToken(edge.letter) ? kTakesTokens : kHasEdges;
  }
  facts_[state] = facts;
  return facts;
}

MatcherState Matcher::Begin() {
  MatcherState state;
  if (IsUnsatisfiable() || IsExhausted()) return state;
  const Ref<Column> column(new Column());
  column->frames.push_back({.rule = root_});
  Closure closure(*this, state);
  closure.Add({.state = starts_[root_], .frame = {column, 0}});
  closure.Run();
  return state;
}

// Sets `moved` to the leaf after a byte; false if the leaf cannot take the byte.
bool Matcher::MoveLeaf(const Leaf& leaf, std::uint8_t byte, Leaf& moved) {
  const Frame& frame = FindFrame(leaf.frame);
  Place to;
  if (!Move(grammar_.rules[frame.rule].count, {leaf.state, leaf.count}, byte, to)) return false;
  moved = {.state = to.state, .count = to.count, .frame = leaf.frame, .memory = leaf.memory};
  return !leaf.unique || MoveUnique(leaf, byte, moved);
}

bool Matcher::Step(const MatcherState& from, std::uint8_t byte, MatcherState& to) {
  to.Clear();
  moved_.clear();
  bool is_plain = from.leaves.size() < kFewLeaves;
  for (const Leaf& leaf : from.leaves) {
    Leaf moved;
    if (!MoveLeaf(leaf, byte, moved)) continue;
    is_plain = is_plain && StateFacts(moved.state) == (kKnown | kTakesBytes);
    moved_.push_back(std::move(moved));
  }
  if (moved_.empty()) return false;
  if (is_plain) {
    Charge(1);
    for (Leaf& leaf : moved_) {
      const bool is_known =
          std::ranges::any_of(to.leaves, [&](const Leaf& known) { return SamePlace(known, leaf); });
      if (!is_known) to.leaves.push_back(std::move(leaf));
    }
  } else {
    Closure closure(*this, to);
    for (Leaf& leaf : moved_) closure.Add(std::move(leaf));
    closure.Run();
  }
  RemoveRepeating(to);
  return !TooComplex() && !to.IsDead();
}

bool Matcher::StepToken(const MatcherState& from, std::uint32_t token, bool has_text,
                        MatcherState& to) {
  to.Clear();
  Closure closure(*this, to);
  for (const Leaf& leaf : from.leaves) {
    if ((StateFacts(leaf.state) & kTakesTokens) == 0) continue;
    for (const LetterEdge& edge : automaton_.Edges(leaf.state)) {
      const bool takes = edge.letter.kind == LetterKind::kToken
                             ? edge.letter.value == token
                             : edge.letter.kind == LetterKind::kOtherToken && has_text &&
                                   edge.letter.value != token;
      if (takes) closure.Add(After(leaf, edge.target, leaf.memory));
    }
  }
  closure.Run();
  RemoveRepeating(to);
  return !TooComplex() && !to.IsDead();
}

std::vector<Letter> Matcher::NextTokens(const MatcherState& state) {
  std::vector<Letter> tokens;
  for (const Leaf& leaf : state.leaves) {
    if ((StateFacts(leaf.state) & kTakesTokens) == 0) continue;
    for (const LetterEdge& edge : automaton_.Edges(leaf.state)) {
      if (IsToken(edge.letter)) AddNew(tokens, edge.letter);
    }
  }
  return tokens;
}

bool Matcher::Leave(const Leaf& leaf, bool ends, MatcherState& to) {
  to.Clear();
  Closure closure(*this, to);
  if (ends) {
    closure.End(leaf);
  } else {
    closure.Follow(leaf);
  }
  closure.Run();
  RemoveRepeating(to);
  return !TooComplex() && !to.IsDead();
}

bool Matcher::IsDeep(const MatcherState& state) const {
  constexpr int kLongestToken = 256;
  return std::ranges::any_of(state.leaves, [&](const Leaf& leaf) {
    return FindFrame(leaf.frame).depth + kLongestToken + max_height_ > limits_.max_depth;
  });
}

}  // namespace fathom::constraint
