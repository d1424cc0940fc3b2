// FrameMerger: frames behind which a text goes on exactly as behind older ones. In an ambiguous
// grammar each place in the text may begin such a frame: merged with the older one, a state does
// not grow with the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "constraint/matcher_state.h"

namespace fathom {

// For one column whose frames have all their returns, and the leaves of its state. Both must
// outlive the merger.
class FrameMerger {
 public:
  FrameMerger(const Ref<Column>& column, const std::vector<Leaf>& leaves)
      : column_(column), leaves_(leaves), older_(column->frames.size()) {}

  // Searches for an older frame that is like a frame of the column: one of the same rule and depth
  // with the same returns, where frames of the column may be like older ones in turn. Looks at
  // those that the frame returns to and those of the leaves. Of frames within unique calls, and
  // where a search would be long, none is found.
  void Search(std::uint32_t index);
  // The older frame that a frame of the column is like; without a column where none was found.
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
  std::vector<FrameRef> older_;          // by frame; while it is compared, what is supposed
  std::vector<std::uint32_t> supposed_;  // the frames that were given one last
  std::vector<FrameRef> read_;
  std::size_t steps_ = 0;
};

}  // namespace fathom
