// The lanes and trees of every sum (docs/numerics.md 1), by threads of a wave.
//
// A group is kGroupThreads threads of a wave, which hold a lane each; a wave has two groups or
// four. All threads of the wave meet in these functions.
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Returns the thread's lane in its group.
GPU_DEVICE int GroupLane() { return ThreadX() % kGroupThreads; }

// The item that a group works on, if every group of the grid has an item. Groups without an item do
// the work of the last item, to meet the other groups, and store nothing.
struct GroupItem {
  int64_t index = 0;
  bool is_real = true;
};
GPU_DEVICE GroupItem ItemOfGroup(int64_t n_items) {
  const int64_t index = (BlockX() * BlockThreads() + ThreadX()) / kGroupThreads;
  return index < n_items ? GroupItem{index, true} : GroupItem{n_items - 1, false};
}

// Returns the tree of the 16 lanes of the group to all of its threads.
GPU_DEVICE float TreeOfGroup(float lane) {
  for (int mask = kGroupThreads / 2; mask > 0; mask /= 2) {
    lane = lane + ShuffleXor(lane, mask);
  }
  return lane;
}

// Returns the largest number of the group to all of its threads.
GPU_DEVICE int32_t LargestOfGroup(int32_t number) {
  for (int mask = kGroupThreads / 2; mask > 0; mask /= 2) {
    const int32_t other = ShuffleXor(number, mask);
    number = other > number ? other : number;
  }
  return number;
}

// Returns the sum of x(i) * w(i), i = 0 ... n - 1, in the order of BF16 weights, to all threads of
// the group: each holds two of the 32 lanes.
template <class X, class W>
GPU_DEVICE float ProductOfGroup(int64_t n, const X& x, const W& w) {
  float low = 0.0f;
  float high = 0.0f;
  for (int64_t i = GroupLane(); i < n; i += 2 * kGroupThreads) {
    low = Fma(x(i), w(i), low);
    if (i + kGroupThreads < n) {
      high = Fma(x(i + kGroupThreads), w(i + kGroupThreads), high);
    }
  }
  return TreeOfGroup(low + high);
}

// Returns 1 / sqrt(sum / n + eps).
GPU_DEVICE float InverseRoot(float sum, int64_t n, float eps) {
  return Div(1.0f, Sqrt(Div(sum, static_cast<float>(n)) + eps));
}

}  // namespace fathom::kernels::gpu
