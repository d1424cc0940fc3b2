// Words of the kernels of probes beside kernels/gpu/gpu.h, for nvcc and for the emulator:
//
//   Nanoseconds()                  a clock that all blocks of the device share
//   LoadFlag(flag) StoreFlag(flag, value)   a word that the host and the device exchange: what was
//                                  written before the store is visible after the load
//   PrefetchToCache(from, bytes)   brings a multiple of 16 bytes into the second-level cache
//   BlockTimes                     when a block began and ended: EndOfBlock(times, began) writes it
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#include "kernels/gpu/gpu.h"
#else
#include <chrono>

#include "tests/emulator/language.h"
#endif

namespace fathom::probe {

struct BlockTimes {
  uint64_t began = 0;  // nanoseconds
  uint64_t ended = 0;
};

// The bytes that a thread reads at once.
struct alignas(16) Vector16 {
  uint32_t words[4];
};

#if defined(__CUDACC__)

GPU_DEVICE uint64_t Nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}
GPU_DEVICE uint32_t LoadFlag(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
GPU_DEVICE void StoreFlag(uint32_t* flag, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
GPU_DEVICE void PrefetchToCache(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
}
#endif

#else

inline uint64_t Nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline uint32_t LoadFlag(const uint32_t* flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
inline void StoreFlag(uint32_t* flag, uint32_t value) {
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}
inline void PrefetchToCache(const void*, int) {}  // there is no cache

#endif

// Called by all threads of the block, at the end.
GPU_DEVICE void EndOfBlock(BlockTimes* times, uint64_t began) {
  SyncBlock();
  if (ThreadX() == 0) {
    times[BlockX()] = {began, Nanoseconds()};
  }
}

}  // namespace fathom::probe
