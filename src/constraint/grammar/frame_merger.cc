#include "constraint/grammar/frame_merger.h"

#include <algorithm>

#include "constraint/lists.h"

namespace fathom::constraint {
namespace {

// Bounds: the frames that are searched for one that equals a frame, and comparisons for a column.
constexpr std::size_t kMaxSearchedFrames = 32;
constexpr std::size_t kMaxSteps = 2'000;

}  // namespace

void FrameMerger::ReadReturns(const FrameRef& ref) { AddNew(read_, ref); }

// Equal frames have equal depths, and a rule returns to rules that are no deeper: the search ends
// at frames that are less deep.
void FrameMerger::Search(std::uint32_t index) {
  const Frame& frame = column_->frames[index];
  if (older_[index].column || frame.scope) return;
  std::vector<FrameRef> reached = {{column_, index}};
  const auto reach = [&](const FrameRef& to) {
    if (++steps_ > kMaxSteps || reached.size() == kMaxSearchedFrames) return;
    if (At(to).depth == frame.depth) AddNew(reached, to);
  };
  for (const Leaf& leaf : leaves_) reach(leaf.frame);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const FrameRef from = reached[i];
    if (!IsHere(from)) {
      if (At(from).rule == frame.rule && IsLike(index, from)) return;
      ReadReturns(from);
    }
    for (const Return& back : At(from).returns) reach(ReturnFrame(back, from.column));
  }
}

// Assumes that the frames are equal, and drops the assumption if their returns differ.
bool FrameMerger::IsLike(std::uint32_t index, const FrameRef& old) {
  if (older_[index].column) return older_[index] == old;
  const Frame& frame = column_->frames[index];
  const Frame& other = At(old);
  if (frame.rule != other.rule || frame.depth != other.depth || frame.scope || other.scope) {
    return false;
  }
  const std::size_t n_before = assumed_equal_.size();
  older_[index] = old;
  assumed_equal_.push_back(index);
  if (HasAllReturns(index, old)) return true;
  for (std::size_t i = n_before; i < assumed_equal_.size(); ++i) older_[assumed_equal_[i]] = {};
  assumed_equal_.resize(n_before);
  return false;
}

// Compares the returns of the frames in both directions.
bool FrameMerger::HasAllReturns(std::uint32_t index, const FrameRef& old) {
  ReadReturns(old);
  const std::vector<Return>& returns = column_->frames[index].returns;
  const std::vector<Return>& others = At(old).returns;
  const bool are_there = std::ranges::all_of(returns, [&](const Return& back) {
    return std::ranges::any_of(
        others, [&](const Return& other) { return ReturnsLike(back, other, old.column); });
  });
  return are_there && std::ranges::all_of(others, [&](const Return& other) {
           return std::ranges::any_of(
               returns, [&](const Return& back) { return ReturnsLike(back, other, old.column); });
         });
}

bool FrameMerger::ReturnsLike(const Return& back, const Return& old,
                              const Ref<Column>& old_column) {
  if (++steps_ > kMaxSteps || back.state != old.state ||
      !Equal(back.memory.get(), old.memory.get())) {
    return false;
  }
  const FrameRef to = ReturnFrame(old, old_column);
  return back.frame.column ? back.frame == to : IsLike(back.frame.index, to);
}

}  // namespace fathom::constraint
