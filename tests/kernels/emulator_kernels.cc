#include "tests/kernels/emulator_kernels.h"

#include "tests/emulator/language.h"

namespace fathom::testing {

GPU_KERNEL(WaveSum, WaveSumArguments a) {
  GPU_SHARED(float, sums, kMaxBlockThreads / 32);
  float sum = a.x[BlockX() * BlockThreads() + ThreadX()];
  for (int mask = WaveSize() / 2; mask > 0; mask /= 2) {
    sum += ShuffleXor(sum, mask);
  }
  if (WaveLane() == 0) {
    sums[ThreadX() / WaveSize()] = sum;
  }
  SyncBlock();
  if (ThreadX() == 0) {
    float all = 0.0f;
    for (int wave = 0; wave < BlockThreads() / WaveSize(); ++wave) {
      all += sums[wave];
    }
    a.sums[BlockX()] = all;
  }
}

GPU_KERNEL(RacyRead, FaultyArguments a) {
  GPU_SHARED(std::int32_t, numbers, kMaxBlockThreads);
  numbers[ThreadX()] = 0;
  SyncBlock();
  numbers[ThreadX()] = ThreadX();
  a.out[ThreadX()] = numbers[ThreadX() ^ 1];
}

GPU_KERNEL(RacyWrite, FaultyArguments a) {
  GPU_SHARED(std::int32_t, numbers, 1);
  numbers[0] = 7;
  SyncBlock();
  a.out[ThreadX()] = numbers[0];
}

GPU_KERNEL(WriteBehindRead, FaultyArguments a) {
  GPU_SHARED(std::int32_t, numbers, kMaxBlockThreads);
  numbers[ThreadX()] = ThreadX();
  SyncBlock();
  a.out[ThreadX()] = numbers[ThreadX() ^ 1];
  numbers[ThreadX()] = 0;
}

GPU_KERNEL(UnwrittenRead, FaultyArguments a) {
  GPU_SHARED(std::int32_t, numbers, kMaxBlockThreads);
  if (ThreadX() < 5) {
    numbers[ThreadX()] = 1;
  }
  SyncBlock();
  a.out[ThreadX()] = numbers[ThreadX()];
}

GPU_KERNEL(Index, FaultyArguments a) {
  GPU_SHARED(std::int32_t, numbers, 16);
  if (ThreadX() < 16) {
    numbers[ThreadX()] = 1;
  }
  SyncBlock();
  a.out[ThreadX()] = numbers[ThreadX()];
}

GPU_KERNEL(DivergentBarrier, FaultyArguments a) {
  if (ThreadX() % 2 == 0) {
    SyncBlock();
  }
  a.out[ThreadX()] = 1;
}

GPU_KERNEL(DivergentShuffle, FaultyArguments a) {
  if (ThreadX() % 2 == 0) {
    a.out[ThreadX()] = ShuffleXor(1, 1);
  } else {
    a.out[ThreadX()] = ShuffleXor(2, 1);
  }
}

GPU_KERNEL(Dynamic, FaultyArguments a) {
  GPU_DYNAMIC_SHARED(std::int32_t, numbers, 16, 256);
  for (int i = ThreadX(); i < 256; i += BlockThreads()) {
    numbers[i] = i;
  }
  SyncBlock();
  if (ThreadX() == 0) {
    std::int32_t sum = 0;
    for (int i = 0; i < 256; ++i) {
      sum += numbers[i];
    }
    a.out[0] = sum;
  }
}

emulator::Kernel WaveSumKernel() { return fathom_emulated_WaveSum(); }
emulator::Kernel RacyReadKernel() { return fathom_emulated_RacyRead(); }
emulator::Kernel RacyWriteKernel() { return fathom_emulated_RacyWrite(); }
emulator::Kernel WriteBehindReadKernel() { return fathom_emulated_WriteBehindRead(); }
emulator::Kernel UnwrittenReadKernel() { return fathom_emulated_UnwrittenRead(); }
emulator::Kernel IndexKernel() { return fathom_emulated_Index(); }
emulator::Kernel DivergentBarrierKernel() { return fathom_emulated_DivergentBarrier(); }
emulator::Kernel DivergentShuffleKernel() { return fathom_emulated_DivergentShuffle(); }
emulator::Kernel DynamicKernel() { return fathom_emulated_Dynamic(); }

}  // namespace fathom::testing
