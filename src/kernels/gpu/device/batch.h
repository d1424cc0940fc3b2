// Reads the batch of a step in kernels, and sets the fault word.
#pragma once

#include <stdint.h>

#include "kernels/fault_code.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

GPU_DEVICE const Segment& FindSegment(const DeviceBatch& batch, int64_t row) {
  return batch.segments[batch.segment_of_row[row]];
}

// Sets the word unless there is a fault already; for equal faults the lowest row is kept, whatever
// the order of the threads. The word has the format of FaultWord (kernels/fault.h).
GPU_DEVICE void SetFault(uint64_t* word, Fault fault, int64_t row) {
  const uint64_t code = static_cast<uint64_t>(fault) << 32;
  const uint64_t desired = code | static_cast<uint32_t>(row);
  uint64_t found = 0;
  while (found == 0 || (found >> 32 == code >> 32 && desired < found)) {
    const uint64_t before = CompareExchange(word, found, desired);
    if (before == found) return;
    found = before;
  }
}

}  // namespace fathom::kernels::gpu
