// Rates of mma.sync: all warps multiply registers.
#include "tools/gpu_checks/probes/rates.h"

#include "tests/hopper/hopper.h"

namespace fathom::probe {

// A round is kWarpProducts products with columns of their own; kColumns / 8 of them share their
// weights (A), which are made anew each time if the kernel widens.
template <Number16 kType, int kColumns, bool kWidens>
GPU_DEVICE void MultiplyByWarps(const RateArguments& a) {
  constexpr int kShared = kColumns / 8;
  constexpr int kOperands = kWarpProducts / kShared;
  uint32_t packed[kOperands][4];
  uint32_t weights[kOperands][4];
  uint32_t columns[2] = {0x3C003C00, 0x3C003C00};
  float sums[kWarpProducts][4] = {};
  GPU_UNROLL
  for (int i = 0; i < kOperands; ++i) {
    GPU_UNROLL
    for (int j = 0; j < 4; ++j) {
      packed[i][j] = FirstPacked(4 * i + j);
      weights[i][j] = Widen(packed[i][j]);
    }
  }
  for (int64_t round = 0; round < a.rounds; ++round) {
    GPU_UNROLL
    for (int i = 0; i < kWarpProducts; ++i) {
      uint32_t(&operand)[4] = weights[i / kShared];
      if (kWidens && i % kShared == 0) {
        GPU_UNROLL
        for (int j = 0; j < 4; ++j) {
          operand[j] = Widen(packed[i / kShared][j]);
        }
      }
      MultiplyByWarp<kType>(sums[i], operand, columns);
    }
  }
  float all = 0.0f;
  GPU_UNROLL
  for (int i = 0; i < kWarpProducts; ++i) {
    all = all + sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  }
  a.sums[BlockX() * BlockThreads() + ThreadX()] = all;
}

GPU_KERNEL(MmaRateF16N8, RateArguments a) { MultiplyByWarps<Number16::kF16, 8, false>(a); }
GPU_KERNEL(MmaRateF16N8Widening, RateArguments a) { MultiplyByWarps<Number16::kF16, 8, true>(a); }
GPU_KERNEL(MmaRateF16N64, RateArguments a) { MultiplyByWarps<Number16::kF16, 64, false>(a); }
GPU_KERNEL(MmaRateF16N64Widening, RateArguments a) { MultiplyByWarps<Number16::kF16, 64, true>(a); }
GPU_KERNEL(MmaRateBf16N8, RateArguments a) { MultiplyByWarps<Number16::kBf16, 8, false>(a); }
GPU_KERNEL(MmaRateBf16N8Widening, RateArguments a) { MultiplyByWarps<Number16::kBf16, 8, true>(a); }
GPU_KERNEL(MmaRateBf16N64, RateArguments a) { MultiplyByWarps<Number16::kBf16, 64, false>(a); }
GPU_KERNEL(MmaRateBf16N64Widening, RateArguments a) {
  MultiplyByWarps<Number16::kBf16, 64, true>(a);
}

}  // namespace fathom::probe
