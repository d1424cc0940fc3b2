// Matcher: reads a text byte by byte by a grammar, in all ways at once (docs/spec/constrained.md
// 3.2): a generalised LL parser whose rule bodies are automata. Left recursion, rules that match
// nothing and ambiguity are allowed; calls at the end of a rule leave no frame behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/automaton.h"
#include "constraint/grammar.h"
#include "constraint/matcher_state.h"

namespace fathom {

// Bounds of the work, in units that do not depend on the speed of the machine, so that an answer
// does not either (docs/spec/constrained.md 3.4).
struct MatcherLimits {
  std::size_t max_states = 250'000;      // of the automaton
  WorkLimits work = kAutomatonLimits;    // to make these states
  std::size_t max_leaves = 2'000;        // of a state
  std::size_t max_steps = 50'000;        // parser steps for one byte
  std::size_t max_mask_steps = 500'000;  // for one mask
  int max_depth = 512;                   // of recursive rules that are open
};

// One thread at a time. The grammar must outlive the matcher, and be complete.
class Matcher {
 public:
  Matcher(Grammar& grammar, const MatcherLimits& limits = {});

  // True if nothing matches the grammar.
  bool IsUnsatisfiable() const { return rules_[root_].start == kDeadState; }

  // The state in front of the text.
  MatcherState Begin();
  // Sets `to` to the state behind a byte, or behind a token that the grammar names. False if
  // nothing matches then, or if the work had no end (TooComplex). `to` must not be `from`.
  bool Step(const MatcherState& from, std::uint8_t byte, MatcherState& to);
  bool StepToken(const MatcherState& from, std::uint32_t token, bool has_text, MatcherState& to);
  // True once a limit was reached; the results are not to be used. Reset begins the count of steps
  // for a mask or a token, and forgets what one state had too much of.
  bool TooComplex() const {
    return too_complex_ || n_steps_ > limits_.max_mask_steps || automaton_.exhausted();
  }
  // True once the automaton has all the states that it may have, whoever asked for them; Reset
  // changes nothing of that.
  bool IsExhausted() const { return automaton_.exhausted(); }
  void Reset() {
    n_steps_ = 0;
    too_complex_ = false;
  }

  // While a mask is computed: frames that existed before and that a step has read are appended to
  // `frames`, each once; null: ends that.
  void Record(std::vector<FrameRef>* frames) {
    recorded_ = frames;
    reads_new_texts_ = false;
  }
  // True if a unique call was entered behind the end of another one since Record, or since the last
  // call of this.
  bool TakeReadsNewTexts() { return std::exchange(reads_new_texts_, false); }

  // The letters that stand for whole tokens and may come next (kToken, kOtherToken): appended, each
  // once.
  void NextTokens(const MatcherState& state, std::vector<Letter>& tokens);
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
  // Sets `to` to the place behind a byte; false if the rule does not take it.
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
  // Sets `to` to the state of what may come instead of more of a leaf's rule: behind the rule if
  // `ends`, which may end there; otherwise behind the edges of the leaf's state. False if nothing
  // may come. The leaf must be able to stand at the place.
  bool Leave(const Leaf& leaf, bool ends, MatcherState& to);
  // True if a limit of depth may be reached within the next token.
  bool IsDeep(const MatcherState& state) const;
  // Counts work that does not depend on what is known already.
  void Charge(std::size_t steps) {
    n_steps_ += steps;
    grammar_.meter.Pass(steps);
  }
  // Counts work whose result is kept.
  void ChargeOnce(std::size_t steps) { grammar_.meter.Spend(steps); }

  const Rule& FindRule(const Leaf& leaf) const {
    return grammar_.rules[FindFrame(leaf.frame).rule];
  }
  int max_depth() const { return limits_.max_depth; }

  static const Frame& FindFrame(const FrameRef& ref) { return ref.column->frames[ref.index]; }

 private:
  struct RuleFacts {
    // The state in front of a text; kNotEntered until a text enters the rule.
    StateId start = kDeadState;
    bool is_recursive = false;
    int height = 0;  // recursive rules open at once in the flattest text of the rule
  };
  static constexpr StateId kNotEntered = 0xFFFFFFFF;
  class Closure;

  StateId StartState(RuleId rule) {
    const StateId known = rules_[rule].start;
    if (known != kNotEntered) return known;
    const StateId start = automaton_.Start(grammar_.Body(rule));
    if (!automaton_.exhausted()) rules_[rule].start = start;
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
  RuleId root_ = 0;  // the whole text; added to the grammar
  std::vector<RuleFacts> rules_;
  int max_height_ = 0;               // of the rules
  std::vector<std::uint8_t> facts_;  // by state
  std::vector<FrameRef>* recorded_ = nullptr;
  bool reads_new_texts_ = false;
  std::size_t n_steps_ = 0;  // since Reset
  bool too_complex_ = false;
  // While a text of a scope is searched that no earlier one equals: the depth of the scope, whose
  // own texts are not compared then, and whether its call has ended with another text.
  int searched_depth_ = 0;
  bool search_ended_ = false;
  // Memory of one step.
  std::vector<Leaf> moved_;
  std::vector<Leaf> pending_;
  std::vector<std::size_t> kept_;
};

}  // namespace fathom
