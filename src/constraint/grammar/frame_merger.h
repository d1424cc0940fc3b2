// FrameMerger: merges frames of a matcher with older frames that have the same continuations. In an
// ambiguous grammar each place in the text may begin such a frame: merged with the older one, a
// state does not grow with the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "constraint/grammar/matcher_state.h"

namespace fathom::constraint {

// Works on one column, whose frames have all their returns, and on the leaves of its state. Both
// must outlive the merger.
class FrameMerger {
 public:
  FrameMerger(const Ref<Column>& column, const std::vector<Leaf>& leaves)
      : column_(column), leaves_(leaves), older_(column->frames.size()) {}

  // Searches for an older frame that equals a frame of the column: both have the same rule, depth
  // and returns. A return to a frame of the column equals a return to an older frame if these two
  // frames are equal, too. Searches the frames that returns reach from the frame and from the
  // leaves. Finds nothing for frames within unique calls, nor where the search would be long.
  void Search(std::uint32_t index);
  // The older frame that equals a frame of the column; without a column where none was found.
  const FrameRef& OlderThan(std::uint32_t index) const { return older_[index]; }
  // The older frames whose returns were read, each once.
  std::span<const FrameRef> read() const { return read_; }
  // Comparisons of returns so far.
  std::size_t steps() const { return steps_; }

 private:
  const Frame& At(const FrameRef& ref) const { return ref.column->frames[ref.index]; }
  bool IsHere(const FrameRef& ref) const { return ref.column == column_; }
  void ReadReturns(const FrameRef& ref);
  bool IsLike(std::uint32_t index, const FrameRef& old);
  bool HasAllReturns(std::uint32_t index, const FrameRef& old);
  bool ReturnsLike(const Return& back, const Return& old, const Ref<Column>& old_column);

  const Ref<Column>& column_;
  const std::vector<Leaf>& leaves_;
  std::vector<FrameRef> older_;  // by frame; an assumption while two frames are compared
  std::vector<std::uint32_t> assumed_equal_;  // the frames with assumptions, the last one last
  std::vector<FrameRef> read_;
  std::size_t steps_ = 0;
};

}  // namespace fathom::constraint
