// Reading of memory by loads of one width, for kernels of probes.
#pragma once

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

// Returns the sum of the words, modulo 2^32, of the vectors of this thread: neighbouring threads
// read neighbouring vectors of the n, and each reads kInFlight before it uses one.
template <int kInFlight, class Vector>
GPU_DEVICE uint32_t SumVectors(const Vector* from, int64_t n) {
  constexpr int kWords = sizeof(Vector) / 4;
  const int64_t step = GridX() * BlockThreads();
  uint32_t sum = 0;
  for (int64_t i = BlockX() * BlockThreads() + ThreadX(); i < n; i += kInFlight * step) {
    Vector vectors[kInFlight];
    GPU_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      vectors[j] = i + j * step < n ? from[i + j * step] : Vector{};
    }
    GPU_UNROLL
    for (int j = 0; j < kInFlight * kWords; ++j) {
      sum += vectors[j / kWords].words[j % kWords];
    }
  }
  return sum;
}

}  // namespace fathom::probe
