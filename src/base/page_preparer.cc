#include "base/page_preparer.h"

#include <algorithm>
#include <limits>
#include <stop_token>
#include <utility>

#include "base/guarded.h"
#include "base/pages.h"
#include "base/signal_mask.h"

namespace fathom {

PagePreparer::PagePreparer(std::span<std::byte> memory) {
  static_cast<void>(Guarded([&]() -> Status {
    const SignalsBlocked blocked;
    state_ = std::make_shared<State>();
    state_->end = memory.size();
    thread_ = std::jthread([memory, state = state_](const std::stop_token& stop) {
      constexpr auto kPiece = static_cast<std::size_t>(kHugePageBytes);
      std::size_t begin = 0;
      while (begin < memory.size()) {
        const std::size_t end = state->end;
        if (stop.stop_requested()) return;
        if (begin >= end) {
          state->end.wait(end);
          continue;
        }
        const std::size_t bytes = std::min(kPiece, memory.size() - begin);
        if (!PopulatePages(memory.subspan(begin, bytes))) return;
        begin += bytes;
        state->n_prepared = begin;
      }
    });
    return {};
  }));
}

PagePreparer& PagePreparer::operator=(PagePreparer&& other) noexcept {
  Stop();
  state_ = std::move(other.state_);
  thread_ = std::move(other.thread_);
  return *this;
}

void PagePreparer::SetEnd(std::size_t end) {
  if (state_ == nullptr || state_->end == end) return;
  state_->end = end;
  state_->end.notify_one();
}

void PagePreparer::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  SetEnd(std::numeric_limits<std::size_t>::max());
  thread_.join();
}

}  // namespace fathom
