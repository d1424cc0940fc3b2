// The batch of a step, in the form that kernels read.
#pragma once

#include <stdint.h>

#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

// BatchView in memory of the device.
struct DeviceBatch {
  const Token* tokens = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* segment_of_row = nullptr;
  const Segment* segments = nullptr;
};

}  // namespace fathom::kernels::gpu
