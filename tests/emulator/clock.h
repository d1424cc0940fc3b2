// Clock: the events that a thread of a cluster can rely on to have happened.
//
// Every thread and every barrier for copies has a count; a thread that has met another one knows
// its counts, and that all writes below these counts are visible. A write without such a meeting is
// a race, in whatever order the threads take turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::kernels::emulator {

class Clock {
 public:
  // Returns the known count of `component`: everything below it has been seen.
  std::uint32_t Seen(std::size_t component) const {
    return component < seen_.size() ? seen_[component] : 0;
  }
  // Returns the fenced count of `component`: asynchronous copies and products see everything below
  // it.
  std::uint32_t Fenced(std::size_t component) const {
    return component < fenced_.size() ? fenced_[component] : 0;
  }
  void See(std::size_t component, std::uint32_t count) {
    if (component >= seen_.size()) seen_.resize(component + 1);
    seen_[component] = std::max(seen_[component], count);
  }
  // Fences everything that is seen.
  void Fence() { Join(fenced_, seen_); }
  void Join(const Clock& other) {
    Join(seen_, other.seen_);
    Join(fenced_, other.fenced_);
  }
  // Keeps only the counts that both know.
  void Meet(const Clock& other) {
    Meet(seen_, other.seen_);
    Meet(fenced_, other.fenced_);
  }

 private:
  using Counts = std::vector<std::uint32_t>;
  static void Join(Counts& to, const Counts& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      to[i] = std::max(to[i], from[i]);
    }
  }
  static void Meet(Counts& to, const Counts& from) {
    to.resize(std::min(to.size(), from.size()));
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = std::min(to[i], from[i]);
    }
  }

  Counts seen_;
  Counts fenced_;
};

}  // namespace fathom::kernels::emulator
