// Automaton: the derivatives of a grammar's expressions as states, which are made on first use
// (docs/spec/constrained.md 3.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "constraint/grammar/character_classes.h"
#include "constraint/grammar/expression.h"
#include "constraint/grammar/id_map.h"
#include "constraint/grammar/kind_search.h"
#include "constraint/work_meter.h"

namespace fathom::constraint {

using StateId = std::uint32_t;
inline constexpr StateId kDeadState = 0;  // nothing matches any more

// A letter that is no byte and may come next, with the state after it.
struct LetterEdge {
  Letter letter;
  StateId target = kDeadState;
};

// One thread at a time. `pool` must outlive the automaton. Only one automaton of a pool may be in
// use, because each sets the limit of the pool (ExpressionPool::SetLimit). Makes at most
// `max_states` states and a proportionate number of expressions. Beyond that, or once the meter of
// the pool ends the work, exhausted() is true, and the results must not be used.
class Automaton {
 public:
  // The sets of bytes in the pool are final from here on: Start must not get an expression with a
  // set of bytes that was made later.
  Automaton(ExpressionPool& pool, std::size_t max_states);
  ~Automaton();

  // kDeadState if nothing matches the expression: for And and Not this is found by search.
  StateId Start(ExpressionId expression);
  // The state after a byte: kDeadState, and no other state, if nothing can match from there.
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
  // Returns kinds of characters such that every text of at most kLargestSlice (character_classes.h)
  // characters of these kinds may come next, and a further byte after it. There may be more such
  // kinds.
  CharacterClasses AcceptedClasses(StateId state) { return kinds_.Find(*this, state); }
  // The state of the larger language that ExpressionPool::OverApproximate makes of a state's
  // expression.
  StateId OverApproximated(StateId state);
  // Sets `texts` to the texts that lead from here to acceptance, in ascending order, if there are
  // at most `most` of them and no letters occur; false if there are more, or if they are longer
  // than 1 MiB together.
  bool ListTexts(StateId state, std::size_t most, std::vector<std::string>& texts);

  // Counts the work of the pool and of all users of the automaton.
  WorkMeter& meter() { return meter_; }
  bool exhausted() const { return exhausted_ || meter_.HasEnded(); }
  std::size_t n_states() const { return facts_.size(); }

 private:
  static constexpr StateId kUnknown = 0xFFFFFFFF;
  static constexpr std::uint32_t kNoEdges = 0xFFFFFFFF;
  void Keep(std::size_t bytes);
  struct Facts {
    ExpressionId expression = 0;
    bool accepts = false;
  };
  // Facts about a state beyond its derivatives.
  struct Details {
    std::uint32_t first_edge = kNoEdges;  // index in edges_
    std::uint32_t n_edges = 0;
    std::optional<bool> takes_bytes;
  };
  StateId Make(StateId state, std::uint8_t byte);

  ExpressionPool& pool_;
  WorkMeter& meter_;
  std::array<std::uint8_t, 256> classes_{};
  std::size_t n_classes_ = 1;
  std::vector<StateId> rows_;  // [states, classes]
  std::vector<Facts> facts_;   // by state
  std::size_t max_states_ = 0;
  bool exhausted_ = false;
  std::size_t n_bytes_ = 0;  // the bytes that the meter counts for this object
  IdMap states_;             // by expression
  std::vector<Details> details_;
  std::vector<LetterEdge> edges_;
  KindSearch kinds_;
};

}  // namespace fathom::constraint
