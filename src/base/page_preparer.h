// PagePreparer: brings memory into being before it is needed, beside other work.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

namespace fathom {

// The system zeroes a page when it is first touched, which costs a tenth of a second per gigabyte
// and far more on virtual machines; a thread of a PagePreparer pays that ahead, from the first page
// to the last.
class PagePreparer {
 public:
  PagePreparer() = default;
  // Begins with `memory`, which is private, writable and outlives this object; its bytes stay as
  // they are, also those that others write meanwhile. Without threads, or on Linux before 5.14,
  // pages come when they are touched, as without this object.
  explicit PagePreparer(std::span<std::byte> memory);
  PagePreparer(PagePreparer&&) = default;
  PagePreparer& operator=(PagePreparer&& other) noexcept;
  // Calls Stop.
  ~PagePreparer() { Stop(); }

  // Goes no further than this many bytes, until the next call allows more. At first all may be
  // prepared. One thread.
  void SetEnd(std::size_t end);
  // Returns the bytes that have been prepared so far. Any thread.
  std::size_t n_prepared() const { return state_ == nullptr ? 0 : state_->n_prepared.load(); }

  // Leaves the pages that are left as they are; waits for the huge page that is being prepared.
  void Stop();

 private:
  struct State {
    std::atomic<std::size_t> end;
    std::atomic<std::size_t> n_prepared = 0;
  };
  std::shared_ptr<State> state_;  // of the thread, too
  std::jthread thread_;
};

}  // namespace fathom
