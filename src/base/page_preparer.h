// PagePreparer: brings memory into being before it is needed, beside other work.
#pragma once

#include <cstddef>
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
  PagePreparer(PagePreparer&&) noexcept = default;
  PagePreparer& operator=(PagePreparer&&) noexcept = default;
  // Calls Stop.
  ~PagePreparer() = default;

  // Leaves the pages that are left as they are; waits for the huge page that is being prepared.
  void Stop();

 private:
  std::jthread thread_;
};

}  // namespace fathom
