// Arguments of the kernels in roofline.cu, which measure the limits of the hardware.
#pragma once

#include <cstdint>

namespace fathom::kernels::gpu {

// The bytes that one thread reads in one load.
struct alignas(16) MemoryVector {
  std::uint32_t words[4] = {};
};

// sums [blocks * threads]: the words that a thread has read, added modulo 2^32. Thread i reads the
// vectors i, i + blocks * threads, ...
struct ReadMemoryArguments {
  const MemoryVector* from = nullptr;
  std::int64_t n = 0;
  std::uint32_t* sums = nullptr;
};

struct CopyMemoryArguments {
  const MemoryVector* from = nullptr;
  MemoryVector* to = nullptr;
  std::int64_t n = 0;
};

// Each thread computes kMultiplyAddChains chains of x = x / 2 + 1, `count` long, of which chain i
// begins at i. sums [blocks * threads]: the sums of their ends.
inline constexpr int kMultiplyAddChains = 16;
struct MultiplyAddsArguments {
  std::int64_t count = 0;
  float* sums = nullptr;
};

}  // namespace fathom::kernels::gpu
