// Converts codes to integers.
#pragma once

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Returns the number of an E4M3 code times 2^9: an integer below 2^18.
GPU_ANYWHERE int32_t E4m3Integer(uint32_t code) {
  const int32_t exponent = static_cast<int32_t>(code >> 3 & 15);
  const int32_t fraction = static_cast<int32_t>(code & 7);
  const int32_t magnitude = exponent == 0 ? fraction : (8 + fraction) << (exponent - 1);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Returns the number of an E2M1 code times 2.
GPU_DEVICE int32_t E2m1Integer(uint32_t code) {
  const int32_t exponent = static_cast<int32_t>(code >> 1 & 3);
  const int32_t fraction = static_cast<int32_t>(code & 1);
  const int32_t magnitude = exponent == 0 ? fraction : (2 + fraction) << (exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace fathom::kernels::gpu
