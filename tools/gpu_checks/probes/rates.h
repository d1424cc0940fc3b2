// Arguments of the kernels that measure matrix units (rates.cu, hopper_rates.cu).
#pragma once

#include <stdint.h>

#include "tools/gpu_checks/probes/language.h"

namespace fathom::probe {

struct RateArguments {
  int64_t rounds = 0;
  float* sums = nullptr;  // of every thread of the grid
};

// A round of mma.sync: products [16, 8] of a warp, 16 deep.
inline constexpr int kWarpProducts = 8;
// A round of wgmma: products [64, N] of a warpgroup, 16 deep, in two groups.
inline constexpr int kGroupProducts = 4;
inline constexpr int kWarpgroupProducts = 2 * kGroupProducts;
// Shared memory of wgmma: rows of 64 numbers, 64 rows of A and N of B.
constexpr int64_t RateSharedBytes(int columns) { return (64 + columns) * 128; }

// Makes two numbers of 16 bits out of packed ones, neither NaN nor infinite, with three
// instructions of the integer pipe and a shift, which the compiler makes a multiplication: 1.5 for
// each weight, as the cheapest widening of 4 and 8 bits takes.
GPU_DEVICE uint32_t Widen(uint32_t& packed) {
  packed ^= packed << 5;
  return (packed & 0x8FFF8FFF) | 0x30003000;
}
// The first packed numbers of a thread.
GPU_DEVICE uint32_t FirstPacked(int i) {
  return static_cast<uint32_t>(ThreadX() + 1) * 0x9E3779B9u + static_cast<uint32_t>(i) * 0x85EBCA6B;
}

}  // namespace fathom::probe
