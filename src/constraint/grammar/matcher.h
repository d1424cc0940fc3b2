// Matcher: reads a text byte by byte by a grammar, in all ways at once (docs/spec/constrained.md
// 3.2): a generalised LL parser whose rule bodies are automata. Left recursion, rules that match
// nothing and ambiguity are allowed; calls at the end of a rule leave no frame on the stack.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "constraint/grammar/automaton.h"
#include "constraint/grammar/grammar.h"
#include "constraint/grammar/matcher_state.h"
#include "constraint/grammar/rule_facts.h"

namespace fathom::constraint {

// Bounds of the work, in units that do not depend on the speed of the machine, so that an answer
// does not either (docs/spec/constrained.md 3.4).
struct MatcherLimits {
  std::size_t max_states = 250'000;      // states of the automaton
  WorkLimits work = kAutomatonLimits;    // work to make these states
  std::size_t max_leaves = 2'000;        // leaves of a state
  std::size_t max_steps = 50'000;        // parser steps for one byte
  std::size_t max_mask_steps = 500'000;  // parser steps for one mask
  int max_depth = 512;                   // recursive rules that are open
};

// The characters that a rule's count lacks to its minimum and has left to its maximum.
struct CharactersLeft {
  // No token has as many characters: larger numbers make no difference.
  static constexpr std::uint32_t kMany = 256;
  std::uint32_t missing = 0;
  std::uint32_t room = kMany;
  friend bool operator==(const CharactersLeft&, const CharactersLeft&) = default;
};

// One thread at a time. The grammar must outlive the matcher, and be complete.
class Matcher {
 public:
  Matcher(Grammar& grammar, const MatcherLimits& limits = {});

  // True if nothing matches the grammar.
  bool IsUnsatisfiable() const { return starts_[root_] == kDeadState; }

  // The state before the text.
  MatcherState Begin();
  // Sets `to` to the state after a byte, or after a token that the grammar names. Returns false if
  // nothing matches then, or if a limit was reached (TooComplex). `to` must not be `from`.
  bool Step(const MatcherState& from, std::uint8_t byte, MatcherState& to);
  bool StepToken(const MatcherState& from, std::uint32_t token, bool has_text, MatcherState& to);
  // True once a limit was reached; the results must not be used. Reset begins a new count of steps,
  // for a mask or a token, and clears the limits that a single state has exceeded.
  bool TooComplex() const {
    return too_complex_ || n_steps_ > limits_.max_mask_steps || automaton_.exhausted();
  }
  // True once the automaton has all the states that it may have, whoever asked for them; Reset does
  // not change this.
  bool IsExhausted() const { return automaton_.exhausted(); }
  void Reset() {
    n_steps_ = 0;
    too_complex_ = false;
  }

  // Records for a mask: from now on each step appends to `frames` the frames that it reads and that
  // existed before, each once. Null ends the recording.
  void Record(std::vector<FrameRef>* frames) {
    recorded_ = frames;
    reads_new_texts_ = false;
  }
  // True if a unique call was entered after the end of another one since Record, or since the last
  // call of this function.
  bool TakeReadsNewTexts() { return std::exchange(reads_new_texts_, false); }

  // The letters for whole tokens that may come next (kToken, kOtherToken), each once.
  std::vector<Letter> NextTokens(const MatcherState& state);
  // --- The parts of Step, for masks, which are computed leaf by leaf ---
  // Facts about a state of the automaton.
  enum Facts : std::uint8_t {
    kKnown = 1,
    kAccepts = 2,
    kTakesBytes = 4,
    kTakesTokens = 8,
    kHasEdges = 16,  // calls of rules, marks, needs
  };
  std::uint8_t StateFacts(StateId state) {
    return state < facts_.size() && facts_[state] != 0 ? facts_[state] : FindFacts(state);
  }
  Automaton& automaton() { return automaton_; }
  // A leaf's place in its rule.
  struct Place {
    StateId state = kDeadState;
    std::uint32_t count = 0;
  };
  // Sets `to` to the place after a byte; false if the rule does not take the byte.
  bool Move(const std::optional<CodePointCount>& bounds, const Place& from, std::uint8_t byte,
            Place& to) {
    std::uint32_t count = from.count;
    if (bounds && automaton_.Accepts(from.state) && count++ == bounds->maximum) return false;
    to = {.state = automaton_.Next(from.state, byte), .count = count};
    return to.state != kDeadState;
  }
  // Adds bytes to the texts of the unique calls that a leaf is within.
  static void AddToUnique(Leaf& leaf, std::span<const std::uint8_t> bytes);
  // True if the texts of earlier unique calls matter for what may follow the byte.
  static bool MeetsEarlierTexts(const Leaf& leaf, std::uint8_t byte);
  // Sets `to` to the state of the texts that leave a leaf's rule: after the rule if `ends`, where
  // the rule may end; otherwise after the edges of the leaf's state. False if nothing may come. A
  // text must be able to lead the leaf to its place.
  bool Leave(const Leaf& leaf, bool ends, MatcherState& to);
  // True if a limit of depth may be reached within the next token.
  bool IsDeep(const MatcherState& state) const;
  // Counts work that is the same whatever is cached.
  void Charge(std::size_t steps) {
    n_steps_ += steps;
    grammar_.meter.Pass(steps);
  }
  // Counts work whose result is kept.
  void ChargeOnce(std::size_t steps) { grammar_.meter.Spend(steps); }

  const Rule& FindRule(const Leaf& leaf) const {
    return grammar_.rules[FindFrame(leaf.frame).rule];
  }
  CharactersLeft FindCharactersLeft(const Leaf& leaf) const {
    const std::optional<CodePointCount>& bounds = FindRule(leaf).count;
    if (!bounds) return {};
    const std::uint32_t missing = bounds->minimum - std::min(bounds->minimum, leaf.count);
    return {.missing = std::min(missing, CharactersLeft::kMany),
            .room = std::min(bounds->maximum - leaf.count, CharactersLeft::kMany)};
  }
  int max_depth() const { return limits_.max_depth; }

  static const Frame& FindFrame(const FrameRef& ref) { return ref.column->frames[ref.index]; }

 private:
  static constexpr StateId kNotEntered = 0xFFFFFFFF;
  class Closure;

  StateId StartState(RuleId rule) {
    const StateId known = starts_[rule];
    if (known != kNotEntered) return known;
    const StateId start = automaton_.Start(grammar_.Body(rule));
    if (!automaton_.exhausted()) starts_[rule] = start;
    return start;
  }
  std::uint8_t FindFacts(StateId state);
  bool MoveLeaf(const Leaf& leaf, std::uint8_t byte, Leaf& moved);
  // Unique and ascending calls (matcher_unique.cc).
  bool MoveUnique(const Leaf& leaf, std::uint8_t byte, Leaf& moved);
  void RemoveRepeating(MatcherState& state);
  bool CanDiffer(const Leaf& leaf);
  bool DiffersAtOnce(const Leaf& leaf, int depth);
  bool CanDifferAt(const Leaf& leaf, int depth);
  bool TakesOtherByte(const MatcherState& state, const ByteSet& known, MatcherState& to);

  Grammar& grammar_;
  const MatcherLimits limits_;
  Automaton automaton_;
  const RuleId root_;  // the rule of the whole text; added to the grammar
  std::vector<RuleProperties> rules_;
  // By rule: the state before its text; kNotEntered until a text enters the rule.
  std::vector<StateId> starts_;
  int max_height_ = 0;               // the greatest height of a rule
  std::vector<std::uint8_t> facts_;  // by state
  std::vector<FrameRef>* recorded_ = nullptr;
  bool reads_new_texts_ = false;
  std::size_t n_steps_ = 0;  // steps since Reset
  bool too_complex_ = false;
  // During the search for a text of a scope that equals no earlier one: the depth of the scope,
  // whose own texts are not compared then, and whether its call has ended with another text.
  int searched_depth_ = 0;
  bool search_ended_ = false;
  // Scratch memory of one step.
  std::vector<Leaf> moved_;
  std::vector<Leaf> pending_;
  std::vector<std::size_t> kept_;
};

}  // namespace fathom::constraint
