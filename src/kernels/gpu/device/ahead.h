// Loads for a chain, ahead of their use.
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

inline constexpr int kAhead = 16;  // loads of a batch

// Calls use(load(i)) for i = 0 ... n - 1 in this order; n is a multiple of kAhead, at least one.
// While a batch is used, the next one is loaded.
template <class Load, class Use>
GPU_DEVICE void ForEachAhead(int64_t n, const Load& load, const Use& use) {
  float batch[kAhead];
  GPU_UNROLL
  for (int i = 0; i < kAhead; ++i) batch[i] = load(i);
  GPU_NO_UNROLL
  for (int64_t first = kAhead; first < n; first += kAhead) {
    float next[kAhead];
    GPU_UNROLL
    for (int i = 0; i < kAhead; ++i) next[i] = load(first + i);
    GPU_UNROLL
    for (int i = 0; i < kAhead; ++i) use(batch[i]);
    GPU_UNROLL
    for (int i = 0; i < kAhead; ++i) batch[i] = next[i];
  }
  GPU_UNROLL
  for (int i = 0; i < kAhead; ++i) use(batch[i]);
}

}  // namespace fathom::kernels::gpu
