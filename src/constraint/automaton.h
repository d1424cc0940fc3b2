// Automaton: the derivatives of a grammar's expressions as states, made when they are first asked
// for (docs/spec/constrained.md 3.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "constraint/expression.h"
#include "constraint/text_kinds.h"
#include "constraint/work_meter.h"

namespace fathom {

using StateId = std::uint32_t;
inline constexpr StateId kDeadState = 0;  // nothing matches any more

// A letter that is no byte and may come next, with the state behind it.
struct LetterEdge {
  Letter letter;
  StateId target = kDeadState;
};

// One thread at a time. `pool` must outlive the automaton, and no other automaton of it may be used
// while this one is: the limit of the pool (ExpressionPool::SetLimit) is set here. At most
// `max_states` states are made, and a proportionate number of expressions; then, or once the meter
// of the pool ends the work, exhausted() is true, and the answers must not be used.
class Automaton {
 public:
  // Expressions with sets of bytes that are made later must not be given to Start.
  Automaton(ExpressionPool& pool, std::size_t max_states);
  ~Automaton();

  // kDeadState if nothing matches the expression: for And and Not this is found by search.
  StateId Start(ExpressionId expression);
  // The state behind a byte. Never a state from which nothing can match.
  StateId Next(StateId state, std::uint8_t byte) {
    const StateId known = rows_[state * n_classes_ + classes_[byte]];
    return known != kUnknown ? known : Make(state, byte);
  }
  // True if the text may end here.
  bool Accepts(StateId state) const { return facts_[state].accepts; }
  // The letters that may come next. Valid until the next call that makes states.
  std::span<const LetterEdge> Edges(StateId state);
  // True if a byte may come next.
  bool TakesBytes(StateId state);
  // Returns kinds of characters all texts of which may come next, if they have at most
  // kLargestSlice (token_trie.h) of them; a byte may still follow. There may be more such kinds.
  TextKinds FreeKinds(StateId state);
  // The state of more texts that ExpressionPool::Loosen describes.
  StateId Loosened(StateId state);
  // Sets `texts` to the texts that lead from here to acceptance, in ascending order, if there are
  // at most `most` of them and no letters occur; false if there are more, or if they are longer
  // than 1 MiB together.
  bool ListTexts(StateId state, std::size_t most, std::vector<std::string>& texts);

  // Counts the work of the pool and of what uses the automaton.
  WorkMeter& meter() { return meter_; }
  bool exhausted() const { return exhausted_ || meter_.HasEnded(); }
  std::size_t n_states() const { return facts_.size(); }

 private:
  static constexpr StateId kUnknown = 0xFFFFFFFF;
  void Keep(std::size_t bytes);
  struct Facts {
    ExpressionId expression = 0;
    bool accepts = false;
  };
  StateId InternState(ExpressionId expression);
  StateId Make(StateId state, std::uint8_t byte);

  ExpressionPool& pool_;
  WorkMeter& meter_;
  std::array<std::uint8_t, 256> classes_{};
  std::size_t n_classes_ = 1;
  std::vector<StateId> rows_;  // [states, classes]
  std::vector<Facts> facts_;
  std::size_t max_states_ = 0;
  bool exhausted_ = false;
  std::size_t n_bytes_ = 0;  // as the meter counts them
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
