// Clock: what a thread of a cluster can rely on to have happened.
//
// Every thread and every barrier for copies counts; a thread that has met another one knows its
// counts, and that all that was written below them is visible. A write without such a meeting is a
// race, however the threads take turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::emulator {

class Clock {
 public:
  // The count of `component` that is known: below it, everything has been seen.
  std::uint32_t Seen(std::size_t component) const {
    return component < seen_.size() ? seen_[component] : 0;
  }
  // Returns the count behind a proxy fence, which copies and products beside the threads see.
  std::uint32_t Fenced(std::size_t component) const {
    return component < fenced_.size() ? fenced_[component] : 0;
  }
  void See(std::size_t component, std::uint32_t count) {
    if (component >= seen_.size()) seen_.resize(component + 1);
    seen_[component] = std::max(seen_[component], count);
  }
  // All that is seen is fenced.
  void Fence() { Join(fenced_, seen_); }
  void Join(const Clock& other) {
    Join(seen_, other.seen_);
    Join(fenced_, other.fenced_);
  }
  // Keeps what both know.
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

}  // namespace fathom::emulator
