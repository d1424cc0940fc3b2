// Reductions over the threads of a block, whose result all threads get.
#pragma once

#include <stdint.h>

#include "kernels/gpu/gpu.h"

namespace fathom::kernels::gpu {

// Replaces each of n numbers by the combination of the numbers of all threads. `combine` must be
// associative and commutative. The block has kMaxBlockThreads threads; `shared` is memory for the
// numbers of all threads.
template <int n, class Shared, class Combine>
GPU_DEVICE void ReduceOfBlock(uint64_t (&numbers)[n], Shared& shared, const Combine& combine) {
  constexpr int kParts = 16;
  static_assert(kParts * kParts == kMaxBlockThreads);
  const auto reduce_every = [&](int step, int end) {
    for (int k = 0; k < n; ++k) {
      const int first = k * kMaxBlockThreads + ThreadX();
      uint64_t reduced = shared[first];
      for (int i = step; i < end; i += step) {
        reduced = combine(reduced, shared[first + i]);
      }
      shared[first] = reduced;
    }
  };
  SyncBlock();
  GPU_UNROLL
  for (int k = 0; k < n; ++k) {
    shared[k * kMaxBlockThreads + ThreadX()] = numbers[k];
  }
  SyncBlock();
  if (ThreadX() < kParts) reduce_every(kParts, kMaxBlockThreads);
  SyncBlock();
  if (ThreadX() == 0) reduce_every(1, kParts);
  SyncBlock();
  GPU_UNROLL
  for (int k = 0; k < n; ++k) {
    numbers[k] = shared[k * kMaxBlockThreads];
  }
}

template <class Shared>
GPU_DEVICE uint64_t SmallestOfBlock(uint64_t number, Shared& shared) {
  uint64_t numbers[1] = {number};
  ReduceOfBlock(numbers, shared, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
  return numbers[0];
}

template <int n, class Shared>
GPU_DEVICE void SumOfBlock(uint64_t (&numbers)[n], Shared& shared) {
  ReduceOfBlock(numbers, shared, [](uint64_t a, uint64_t b) { return a + b; });
}

}  // namespace fathom::kernels::gpu
