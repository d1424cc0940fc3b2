// FaultWord: the fault that an operation has found in the numbers it was given.
//
// Shapes are checked on entry, on the host. The content of device memory is checked only while an
// operation runs: the operation sets the fault word, skips the bad element, and the error is
// returned to the caller that waits for the operation.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lost_pages.h"
#include "base/result.h"
#include "kernels/fault_code.h"

namespace fathom::kernels {

// Keeps the first fault. Set: any thread.
class FaultWord {
 public:
  // row: a row of the call's batch, or of whatever the operation counts.
  void Set(Fault fault, std::int64_t row) {
    std::uint64_t none = 0;
    const auto code = static_cast<std::uint64_t>(fault) << 32;
    word_.compare_exchange_strong(none, code | static_cast<std::uint32_t>(row),
                                  std::memory_order_relaxed);
  }
  // Returns kInvalidData if there was a fault since the last call, or if weights have been lost
  // since the process began (base/lost_pages.h). The caller must have waited for the operations.
  Status Take() {
    return word_.load(std::memory_order_relaxed) == 0
               ? CheckLostPages()
               : ToError(word_.exchange(0, std::memory_order_relaxed));
  }

 private:
  static Status ToError(std::uint64_t word);

  std::atomic<std::uint64_t> word_ = 0;  // the fault, and the row in the lower half; 0: none
};

}  // namespace fathom::kernels
