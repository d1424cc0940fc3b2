// StateEquivalence: compares two states of a matcher: whether they allow the same tokens, as far as
// a mask has read them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "constraint/grammar/matcher.h"
#include "constraint/grammar/matcher_state.h"

namespace fathom::constraint {

// Compares a state whose mask is known with another one, first their leaves, then the frames that
// the known mask has read. Frames correspond by the way that leads to them, not by their identity.
class StateEquivalence {
 public:
  // with_texts: also texts of unique calls that have not ended must be equal.
  StateEquivalence(const Matcher& matcher, bool with_texts)
      : matcher_(matcher), with_texts_(with_texts) {}

  // Equal for all states that Compare may find alike.
  static std::uint64_t Hash(const Matcher& matcher, const MatcherState& state);

  bool Compare(const MatcherState& known, const MatcherState& other);
  bool CompareFrames(std::span<const FrameRef> known);

 private:
  bool Match(const FrameRef& known, const FrameRef& other);
  int DepthLeft(const Frame& frame) const;

  const Matcher& matcher_;
  const bool with_texts_;
  std::vector<std::pair<FrameRef, FrameRef>> matched_;
};

}  // namespace fathom::constraint
