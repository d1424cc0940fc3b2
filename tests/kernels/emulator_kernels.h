// Kernels that do what the emulator finds, and kernels that are right (emulator_kernels.cc).
#pragma once

#include <cstdint>

#include "tests/emulator/block.h"

namespace fathom::testing {

struct WaveSumArguments {
  const float* x = nullptr;  // [blocks, threads]
  float* sums = nullptr;     // [blocks]
};
// The sum of a block's numbers, through a tree of every wave and shared memory.
emulator::Kernel WaveSumKernel();

struct FaultyArguments {
  std::int32_t* out = nullptr;  // [threads]
};
emulator::Kernel RacyReadKernel();          // reads what a neighbour writes
emulator::Kernel RacyWriteKernel();         // two threads write one element
emulator::Kernel WriteBehindReadKernel();   // overwrites what a neighbour has read
emulator::Kernel UnwrittenReadKernel();     // reads what nobody has written
emulator::Kernel IndexKernel();             // reads behind the end
emulator::Kernel DivergentBarrierKernel();  // half of the threads do not reach a barrier
emulator::Kernel DivergentShuffleKernel();  // two shuffles for one wave
emulator::Kernel DynamicKernel();           // 256 numbers in dynamic shared memory: out[0] = sum

}  // namespace fathom::testing
