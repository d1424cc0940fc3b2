// Rates of wgmma: every block is a warpgroup with operands in shared memory, weights (A) there or
// in registers.
#include "tests/hopper/hopper.h"
#include "tools/gpu_checks/probes/rates.h"

namespace fathom::probe {

// Numbers near 1 for all rows of A and B.
GPU_DEVICE void FillTiles(const SharedWindow& window, int rows) {
  for (int i = ThreadX(); i < rows * 32; i += BlockThreads()) {
    window.Store<uint32_t>(4 * i, 0x3C003C00);
  }
  FenceProxy();
  SyncBlock();
}

template <int kN>
GPU_DEVICE void WriteSum(WgmmaSums<kN>& sums, uint32_t packed, float* out) {
  float all = 0.0f;
  GPU_UNROLL
  for (int i = 0; i < kN / 2; ++i) {
    all = all + sums[i];
  }
  out[BlockX() * BlockThreads() + ThreadX()] = all + static_cast<float>(packed);
}

// The integer instructions that widening the weights of a group of products takes; a product has
// 8 weights for each thread.
GPU_DEVICE void WidenBeside(uint32_t (&packed)[4], uint32_t& all) {
  GPU_UNROLL
  for (int i = 0; i < 4 * kGroupProducts; ++i) {
    all ^= Widen(packed[i % 4]);
  }
}

template <int kN>
GPU_DEVICE void SetToZero(WgmmaSums<kN>& sums) {
  GPU_UNROLL
  for (int i = 0; i < kN / 2; ++i) {
    sums[i] = 0.0f;
  }
}

template <int kN, bool kWidens>
GPU_DEVICE void MultiplyTilesOfShared(const RateArguments& a, const SharedWindow& window) {
  constexpr int kB = 64 * 128;
  FillTiles(window, 64 + kN);
  const uint64_t weights = SwizzledTile(window.Address(0));
  const uint64_t columns = SwizzledTile(window.Address(kB));
  uint32_t packed[4];
  uint32_t all = 0;
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    packed[i] = FirstPacked(i);
  }
  WgmmaSums<kN> sums;
  SetToZero(sums);
  for (int64_t round = 0; round < a.rounds; ++round) {
    GPU_UNROLL
    for (int group = 0; group < 2; ++group) {
      WgmmaFence();
      GPU_UNROLL
      for (int i = 0; i < kGroupProducts; ++i) {
        const auto step = static_cast<uint64_t>(2 * i);
        Wgmma<Number16::kF16>(sums, weights + step, columns + step, true);
      }
      WgmmaCommit();
      if (kWidens) {
        WidenBeside(packed, all);
      }
      WgmmaWait<1>(sums);
    }
  }
  WgmmaWait<0>(sums);
  WriteSum(sums, all, a.sums);
}

// Loads the weights that every round uses.
GPU_DEVICE void LoadWeights(const SharedWindow& window, WgmmaOperand (&weights)[kGroupProducts]) {
  const int row = ThreadX() / 32 * 16 + ThreadX() % 16;
  GPU_UNROLL
  for (int i = 0; i < kGroupProducts; ++i) {
    uint32_t pairs[4];
    LoadMatrices<false>(pairs, window.Address(row * 128 + 32 * i + ThreadX() % 32 / 16 * 16));
    GPU_UNROLL
    for (int j = 0; j < 4; ++j) {
      weights[i][j] = pairs[j];
    }
  }
}

// A kernel that widens makes the weights of a group while the products of the last one run.
template <int kN, bool kWidens>
GPU_DEVICE void MultiplyTilesOfRegisters(const RateArguments& a, const SharedWindow& window) {
  constexpr int kB = 64 * 128;
  constexpr int kSets = kWidens ? 2 : 1;
  FillTiles(window, 64 + kN);
  const uint64_t columns = SwizzledTile(window.Address(kB));
  uint32_t packed[kGroupProducts][4];
  WgmmaOperand weights[kSets][kGroupProducts];
  LoadWeights(window, weights[0]);
  GPU_UNROLL
  for (int i = 0; i < 4 * kGroupProducts; ++i) {
    packed[i / 4][i % 4] = FirstPacked(i);
  }
  WgmmaSums<kN> sums;
  SetToZero(sums);
  for (int64_t round = 0; round < a.rounds; ++round) {
    GPU_UNROLL
    for (int group = 0; group < 2; ++group) {
      GPU_UNROLL
      for (int i = 0; kWidens && i < kGroupProducts; ++i) {
        GPU_UNROLL
        for (int j = 0; j < 4; ++j) {
          weights[group][i][j] = Widen(packed[i][j]);
        }
      }
      WgmmaFence();
      GPU_UNROLL
      for (int i = 0; i < kGroupProducts; ++i) {
        Wgmma<Number16::kF16>(sums, weights[group % kSets][i],
                              columns + static_cast<uint64_t>(2 * i), true);
      }
      WgmmaCommit();
      WgmmaWait<1>(sums);
    }
  }
  WgmmaWait<0>(sums);
  WriteSum(sums, packed[0][0], a.sums);
}

}  // namespace fathom::probe

#define WGMMA_RATE(Name, Multiply, columns, widens) \
  HOPPER_KERNEL(Name, 128, 1, RateArguments a) {    \
    HOPPER_SHARED(window);                          \
    Multiply<columns, widens>(a, window);           \
  }
#define WGMMA_RATES(columns)                                                            \
  WGMMA_RATE(WgmmaRateSharedN##columns, MultiplyTilesOfShared, columns, false)          \
  WGMMA_RATE(WgmmaRateSharedN##columns##Widening, MultiplyTilesOfShared, columns, true) \
  WGMMA_RATE(WgmmaRateRegistersN##columns, MultiplyTilesOfRegisters, columns, false)    \
  WGMMA_RATE(WgmmaRateRegistersN##columns##Widening, MultiplyTilesOfRegisters, columns, true)

namespace fathom::probe {

WGMMA_RATES(8)
WGMMA_RATES(64)
WGMMA_RATES(128)
WGMMA_RATES(256)

}  // namespace fathom::probe
