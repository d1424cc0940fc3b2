// PagePreparer: populates memory before it is needed, in parallel with other work.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

namespace fathom {

// The system zeroes a page at its first touch, which costs a tenth of a second per gigabyte, and
// far more on virtual machines. The thread of a PagePreparer does this in advance, from the first
// page to the last.
class PagePreparer {
 public:
  PagePreparer() = default;
  // Begins with `memory`, which must be private and writable and must outlive this object. Its
  // bytes stay unchanged, even if others write them meanwhile. Without threads, or on Linux before
  // 5.14, pages are populated at first touch, as without this object.
  explicit PagePreparer(std::span<std::byte> memory);
  PagePreparer(PagePreparer&&) = default;
  PagePreparer& operator=(PagePreparer&& other) noexcept;
  // Calls Stop.
  ~PagePreparer() { Stop(); }

  // Stops at this number of bytes until the next call allows more. At first, all pages may be
  // prepared. One thread.
  void SetEnd(std::size_t end);
  // Returns the bytes that have been prepared so far. Any thread.
  std::size_t n_prepared() const { return state_ == nullptr ? 0 : state_->n_prepared.load(); }

  // Leaves all other pages unprepared; waits for the huge page that is being prepared.
  void Stop();

 private:
  struct State {
    std::atomic<std::size_t> end;
    std::atomic<std::size_t> n_prepared = 0;
  };
  std::shared_ptr<State> state_;  // shared with the thread
  std::jthread thread_;
};

}  // namespace fathom
