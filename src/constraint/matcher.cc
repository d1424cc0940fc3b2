#include "constraint/matcher.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "constraint/rule_facts.h"
#include "constraint/token_trie.h"
#include "constraint/vocabulary.h"

namespace fathom {
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

std::uint64_t HashOf(const Leaf& leaf) {
  std::uint64_t hash = leaf.state;
  hash = hash * 0x9E3779B97F4A7C15 + leaf.count;
  hash = hash * 0x9E3779B97F4A7C15 + reinterpret_cast<std::uintptr_t>(leaf.frame.column.get());
  hash = hash * 0x9E3779B97F4A7C15 + leaf.frame.index;
  return hash ^ (hash >> 29);
}

Ref<const Memory> WithMark(const Memory* memory, std::uint32_t mark) {
  auto* more = memory != nullptr ? new Memory(*memory) : new Memory();
  more->marks.resize(std::max<std::size_t>(more->marks.size(), mark / 64 + 1));
  more->marks[mark / 64] |= std::uint64_t{1} << (mark % 64);
  return Ref<const Memory>(more);
}

Ref<const Memory> WithText(const Memory* memory, std::string text) {
  auto* more = memory != nullptr ? new Memory(*memory) : new Memory();
  auto* seen = new SeenText();
  seen->text = std::move(text);
  seen->earlier = more->seen;
  seen->n = 1 + (more->seen ? more->seen->n : 0);
  more->seen = Ref<const SeenText>(seen);
  return Ref<const Memory>(more);
}

}  // namespace

// Adds leaves to a state, with all places that are reached without a byte: entered rules, the
// places behind rules that end, passed marks. Frames of rules that are entered here form one
// column.
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
    if (++matcher_.n_steps_ > step_limit_ || pending_.size() >= matcher_.limits_.max_leaves) {
      matcher_.too_complex_ = true;
      return;
    }
    if (IsKnown(leaf)) return;
    pending_.push_back(std::move(leaf));
  }

  // Follows everything that was added. The leaves that can take a byte or a token are the state.
  void Run() {
    std::vector<std::size_t>& kept = matcher_.kept_;
    kept.clear();
    for (std::size_t i = 0; i < pending_.size() && !matcher_.too_complex_; ++i) {
      const std::uint8_t facts = matcher_.FactsOf(pending_[i].state);
      if ((facts & kAccepts) != 0) End(i);
      if ((facts & kHasEdges) != 0) Follow(i);
      if ((facts & (kTakesBytes | kTakesTokens)) != 0) kept.push_back(i);
    }
    to_.leaves.reserve(kept.size());
    for (const std::size_t i : kept) to_.leaves.push_back(std::move(pending_[i]));
  }

 private:
  bool IsKnown(const Leaf& leaf) {
    if (pending_.size() < kFewLeaves) {
      return std::any_of(pending_.begin(), pending_.end(),
                         [&](const Leaf& known) { return SamePlace(known, leaf); });
    }
    if (by_hash_.empty()) {
      for (std::size_t i = 0; i < pending_.size(); ++i) by_hash_.emplace(HashOf(pending_[i]), i);
    }
    const std::uint64_t hash = HashOf(leaf);
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
    std::vector<FrameRef>& frames = *matcher_.recorded_;
    if (std::find(frames.begin(), frames.end(), frame) == frames.end()) frames.push_back(frame);
  }

  // The rule of a leaf may end here.
  void End(std::size_t i) {
    const Leaf leaf = pending_[i];
    const Rule& rule = matcher_.grammar_.rules[FrameAt(leaf.frame).rule];
    if (rule.count && leaf.count < rule.count->minimum) return;
    std::string text;
    const bool is_unique = FrameAt(leaf.frame).is_unique;
    if (is_unique) {
      const UniqueText* read = leaf.unique.get();
      const bool repeats =
          read != nullptr && std::any_of(read->rests.begin(), read->rests.end(),
                                         [](const auto& rest) { return rest.empty(); });
      if (repeats) return;
      if (read != nullptr) text = read->Text();
    }
    Record(leaf.frame);
    if (FrameAt(leaf.frame).rule == matcher_.root_) {
      to_.accepts = true;
      return;
    }
    if (IsHere(leaf.frame)) FrameAt(leaf.frame).ended_at_once = true;
    // The list may grow while it is followed.
    for (std::size_t r = 0; r < FrameAt(leaf.frame).returns.size(); ++r) {
      const Return back = FrameAt(leaf.frame).returns[r];
      Resume(back, leaf.frame.column, is_unique ? WithText(back.memory.get(), text) : back.memory);
      if (is_unique) has_new_text_ = true;
    }
  }

  void Resume(const Return& back, const Ref<Column>& column, Ref<const Memory> memory) {
    FrameRef frame = back.frame;
    if (!frame.column) frame.column = column;
    Add({.state = back.state, .frame = std::move(frame), .memory = std::move(memory)});
  }

  // Follows the letters that are no bytes.
  void Follow(std::size_t i) {
    const Leaf leaf = pending_[i];
    const std::span<const LetterEdge> view = matcher_.automaton_.Edges(leaf.state);
    const std::vector<LetterEdge> edges(view.begin(), view.end());
    for (const LetterEdge& edge : edges) {
      switch (edge.letter.kind) {
        case LetterKind::kToken:
        case LetterKind::kOtherToken:
          break;
        case LetterKind::kCall:
        case LetterKind::kUniqueCall:
          Call(leaf, edge);
          break;
        case LetterKind::kMark: {
          const std::uint32_t mark = edge.letter.value;
          if (leaf.memory && leaf.memory->Has(mark)) break;
          Add({.state = edge.target,
               .frame = leaf.frame,
               .memory = WithMark(leaf.memory.get(), mark)});
          break;
        }
        case LetterKind::kNeed: {
          const std::vector<std::uint32_t>& need = matcher_.grammar_.needs[edge.letter.value];
          const bool has_all = std::all_of(need.begin(), need.end(), [&](std::uint32_t mark) {
            return leaf.memory && leaf.memory->Has(mark);
          });
          if (has_all) Add({.state = edge.target, .frame = leaf.frame, .memory = leaf.memory});
          break;
        }
      }
    }
  }

  void Call(const Leaf& leaf, const LetterEdge& edge) {
    const RuleId rule = edge.letter.value;
    const bool is_unique = edge.letter.kind == LetterKind::kUniqueCall;
    const RuleFacts& facts = matcher_.rules_[rule];
    if (facts.start == kDeadState) return;
    const int depth = FrameAt(leaf.frame).depth;
    if (depth + facts.height > matcher_.limits_.max_depth) return;
    const Ref<const SeenText> seen =
        is_unique && leaf.memory ? leaf.memory->seen : Ref<const SeenText>();
    if (is_unique && has_new_text_) matcher_.reads_new_texts_ = true;

    // A call at the end of a rule returns to where the rule returns.
    const bool ends_rule = !is_unique && !IsHere(leaf.frame) &&
                           FrameAt(leaf.frame).rule != matcher_.root_ &&
                           matcher_.FactsOf(edge.target) == (kKnown | kAccepts);
    const std::size_t callee =
        Enter(rule, ends_rule ? depth : depth + (facts.is_recursive ? 1 : 0), is_unique, seen);
    if (ends_rule) {
      Record(leaf.frame);
      const std::vector<Return>& returns = FrameAt(leaf.frame).returns;
      for (const Return& back : returns) {
        Return further = back;
        if (!further.frame.column) further.frame.column = leaf.frame.column;
        AddReturn(callee, std::move(further));
      }
      return;
    }
    Return back = {.state = edge.target, .frame = leaf.frame, .memory = leaf.memory};
    if (IsHere(leaf.frame)) back.frame.column = {};
    AddReturn(callee, std::move(back));
  }

  // The frame of a rule that is entered here; made with its first leaf where it is new.
  std::size_t Enter(RuleId rule, int depth, bool is_unique, const Ref<const SeenText>& seen) {
    if (!column_) {
      column_ = Ref<Column>(new Column());
      column_->is_scratch = matcher_.recorded_ != nullptr;
    }
    std::vector<Frame>& frames = column_->frames;
    const auto found = std::find_if(frames.begin(), frames.end(), [&](const Frame& frame) {
      return frame.rule == rule && frame.is_unique == is_unique &&
             Equal(frame.seen.get(), seen.get());
    });
    if (found != frames.end()) return static_cast<std::size_t>(found - frames.begin());
    frames.push_back({.rule = rule, .depth = depth, .seen = seen, .is_unique = is_unique});
    Leaf first = {.state = matcher_.rules_[rule].start,
                  .frame = {column_, static_cast<std::uint32_t>(frames.size() - 1)}};
    if (seen) {
      auto* unique = new UniqueText();
      for (const SeenText* text = seen.get(); text != nullptr; text = text->earlier.get()) {
        unique->rests.push_back(text->text);
      }
      first.unique = Ref<UniqueText>(unique);
    }
    Add(std::move(first));
    return frames.size() - 1;
  }

  void AddReturn(std::size_t callee, Return back) {
    std::vector<Return>& returns = column_->frames[callee].returns;
    const bool is_known = std::any_of(returns.begin(), returns.end(), [&](const Return& known) {
      return known.state == back.state && known.frame == back.frame &&
             Equal(known.memory.get(), back.memory.get());
    });
    if (is_known) return;
    if (++matcher_.n_steps_ > step_limit_) {
      matcher_.too_complex_ = true;
      return;
    }
    returns.push_back(back);
    // The rule has matched the empty text already; a unique one has a text of its own to add.
    const Frame& frame = column_->frames[callee];
    if (frame.ended_at_once) {
      Resume(back, column_,
             frame.is_unique ? WithText(back.memory.get(), std::string()) : back.memory);
    }
  }

  Matcher& matcher_;
  MatcherState& to_;
  const std::size_t step_limit_;
  std::vector<Leaf>& pending_;
  Ref<Column> column_;  // of the rules that are entered here
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  bool has_new_text_ = false;
};

Matcher::Matcher(Grammar& grammar, const MatcherLimits& limits)
    : grammar_(grammar), limits_(limits), automaton_(grammar.pool, limits.max_states) {
  root_ = grammar_.AddRule("root");
  grammar_.rules[root_].body = grammar_.start;
  const std::vector<RuleProperties> properties = FindRuleProperties(grammar_);
  rules_.reserve(properties.size());
  for (RuleId rule = 0; rule < properties.size(); ++rule) {
    const RuleProperties& found = properties[rule];
    rules_.push_back(
        {.start = found.matches ? automaton_.Start(grammar_.rules[rule].body) : kDeadState,
         .is_recursive = found.is_recursive,
         .height = found.height});
  }
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
  if (IsUnsatisfiable()) return state;
  const Ref<Column> column(new Column());
  column->frames.push_back({.rule = root_});
  Closure closure(*this, state);
  closure.Add({.state = rules_[root_].start, .frame = {column, 0}});
  closure.Run();
  return state;
}

// The leaf behind a byte; false if it cannot take the byte.
bool Matcher::Move(const Leaf& leaf, std::uint8_t byte, Leaf& moved) {
  const Frame& frame = FrameOf(leaf.frame);
  const Rule& rule = grammar_.rules[frame.rule];
  std::uint32_t count = leaf.count;
  if (rule.count && automaton_.Accepts(leaf.state)) {
    if (count == rule.count->maximum) return false;
    ++count;
  }
  const StateId next = automaton_.Next(leaf.state, byte);
  if (next == kDeadState) return false;
  moved = {.state = next, .count = count, .frame = leaf.frame, .memory = leaf.memory};
  return !frame.is_unique || MoveUnique(leaf, byte, moved);
}

void Matcher::AddToUnique(Leaf& leaf, std::span<const std::uint8_t> bytes) const {
  if (!FrameOf(leaf.frame).is_unique) return;
  for (const std::uint8_t byte : bytes) {
    auto* unique = new UniqueText();
    unique->byte = byte;
    unique->size = 1 + (leaf.unique ? leaf.unique->size : 0);
    unique->previous = std::move(leaf.unique);
    leaf.unique = Ref<UniqueText>(unique);
  }
}

// False if only earlier texts are left.
bool Matcher::MoveUnique(const Leaf& leaf, std::uint8_t byte, Leaf& moved) {
  moved.unique = leaf.unique;
  AddToUnique(moved, {&byte, 1});
  UniqueText* unique = moved.unique.get();
  if (!leaf.unique) return true;
  for (const std::string_view rest : leaf.unique->rests) {
    if (!rest.empty() && static_cast<std::uint8_t>(rest[0]) == byte) {
      unique->rests.push_back(rest.substr(1));
    }
  }
  if (unique->rests.empty()) return true;
  std::vector<std::string> texts;
  if (!automaton_.ListTexts(moved.state, unique->rests.size(), texts)) return true;
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    return std::find(unique->rests.begin(), unique->rests.end(), text) == unique->rests.end();
  });
}

bool Matcher::Step(const MatcherState& from, std::uint8_t byte, MatcherState& to) {
  to.Clear();
  moved_.clear();
  bool is_plain = from.leaves.size() < kFewLeaves;
  for (const Leaf& leaf : from.leaves) {
    Leaf moved;
    if (!Move(leaf, byte, moved)) continue;
    is_plain = is_plain && FactsOf(moved.state) == (kKnown | kTakesBytes);
    moved_.push_back(std::move(moved));
  }
  if (moved_.empty()) return false;
  if (is_plain) {
    ++n_steps_;
    for (Leaf& leaf : moved_) {
      const bool is_known = std::any_of(to.leaves.begin(), to.leaves.end(),
                                        [&](const Leaf& known) { return SamePlace(known, leaf); });
      if (!is_known) to.leaves.push_back(std::move(leaf));
    }
    return true;
  }
  Closure closure(*this, to);
  for (Leaf& leaf : moved_) closure.Add(std::move(leaf));
  closure.Run();
  return !TooComplex() && !to.IsDead();
}

bool Matcher::StepToken(const MatcherState& from, std::uint32_t token, bool has_text,
                        MatcherState& to) {
  to.Clear();
  Closure closure(*this, to);
  for (const Leaf& leaf : from.leaves) {
    if ((FactsOf(leaf.state) & kTakesTokens) == 0) continue;
    for (const LetterEdge& edge : automaton_.Edges(leaf.state)) {
      const bool takes = edge.letter.kind == LetterKind::kToken
                             ? edge.letter.value == token
                             : edge.letter.kind == LetterKind::kOtherToken && has_text &&
                                   edge.letter.value != token;
      if (!takes) continue;
      closure.Add({.state = edge.target, .frame = leaf.frame, .memory = leaf.memory});
    }
  }
  closure.Run();
  return !TooComplex() && !to.IsDead();
}

void Matcher::NextTokens(const MatcherState& state, std::vector<Letter>& tokens) {
  for (const Leaf& leaf : state.leaves) {
    if ((FactsOf(leaf.state) & kTakesTokens) == 0) continue;
    for (const LetterEdge& edge : automaton_.Edges(leaf.state)) {
      if (!IsToken(edge.letter)) continue;
      if (std::find(tokens.begin(), tokens.end(), edge.letter) == tokens.end()) {
        tokens.push_back(edge.letter);
      }
    }
  }
}

Matcher::SliceAnswer Matcher::TakesSlices(const MatcherState& state) {
  SliceAnswer answer = {.is_exact = true};
  for (const Leaf& leaf : state.leaves) {
    const std::optional<CodePointCount>& count = RuleOf(leaf).count;
    const auto room = count ? std::min<std::uint32_t>(count->maximum - leaf.count, kLargestSlice)
                            : std::uint32_t{kLargestSlice};
    int takes = 0;
    if (automaton_.TakesSlice(leaf.state, kLargestSlice)) {
      takes = static_cast<int>(room);
    } else {
      answer.is_exact = false;
      if (!count && automaton_.TakesSlice(leaf.state, kSmallSlice)) takes = kSmallSlice;
    }
    answer.largest = std::max(answer.largest, takes);
  }
  answer.is_exact = answer.is_exact || answer.largest == kLargestSlice;
  return answer;
}

}  // namespace fathom
