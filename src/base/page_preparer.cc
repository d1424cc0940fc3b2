#include "base/page_preparer.h"

#include <algorithm>
#include <stop_token>

#include "base/guarded.h"
#include "base/pages.h"
#include "base/signal_mask.h"

namespace fathom {

PagePreparer::PagePreparer(std::span<std::byte> memory) {
  static_cast<void>(Guarded([&]() -> Status {
    const SignalsBlocked blocked;
    thread_ = std::jthread([memory](const std::stop_token& stop) {
      constexpr auto kPiece = static_cast<std::size_t>(kHugePageBytes);
      for (std::size_t i = 0; i < memory.size() && !stop.stop_requested(); i += kPiece) {
        if (!PopulatePages(memory.subspan(i, std::min(kPiece, memory.size() - i)))) return;
      }
    });
    return {};
  }));
}

void PagePreparer::Stop() { thread_ = {}; }

}  // namespace fathom
