// Products with Hopper's units.
#include "hopper_kernels.h"
#include "tests/hopper/hopper.h"

namespace fathom::testing {

// The barriers of a pipeline with two stages, and its tiles.
struct Pipeline {
  SharedWindow window;
  GPU_DEVICE uint32_t Full(int stage) const { return window.Address(16 * stage); }
  GPU_DEVICE uint32_t Empty(int stage) const { return window.Address(16 * stage + 8); }
  GPU_DEVICE uint32_t A(int stage) const { return window.Address(1024 + 16384 * stage); }
  GPU_DEVICE uint32_t B(int stage) const { return window.Address(1024 + 16384 * stage + 8192); }
};

// Writes a thread's sums of a product of its warpgroup.
template <int kN>
GPU_DEVICE void WriteSums(WgmmaSums<kN>& sums, int thread, float* out) {
  const int row = thread / 32 * 16 + thread % 32 / 4;
  GPU_UNROLL
  for (int i = 0; i < kN / 2; ++i) {
    out[(row + i / 2 % 2 * 8) * kN + thread % 4 * 2 + i / 4 * 8 + i % 2] = sums[i];
  }
}

template <Number16 kType>
GPU_DEVICE void MultiplyTiles(const TiledProductArguments& a, const SharedWindow& window) {
  const Pipeline pipeline = {window};
  const int n_tiles = static_cast<int>(a.depth / 64);
  if (ThreadX() == 0) {
    for (int stage = 0; stage < 2; ++stage) {
      InitBarrier(pipeline.Full(stage), 1);
      InitBarrier(pipeline.Empty(stage), 128);
    }
    FenceBarrierInit();
  }
  SyncBlock();
  WaitForEarlierKernels();
  if (ThreadX() < 128) {
    ReleaseRegisters<40>();
    for (int tile = 0; ThreadX() == 0 && tile < n_tiles; ++tile) {
      const int stage = tile % 2;
      WaitBarrier(pipeline.Empty(stage), 1 - tile / 2 % 2);
      ArriveAndExpect(pipeline.Full(stage), 2 * 8192);
      CopyTile(pipeline.A(stage), a.a, tile * 64, 0, pipeline.Full(stage));
      CopyTile(pipeline.B(stage), a.b, tile * 64, 0, pipeline.Full(stage));
    }
    return;
  }
  TakeRegisters<248>();
  WgmmaSums<64> sums;
  for (int tile = 0; tile < n_tiles; ++tile) {
    const int stage = tile % 2;
    WaitBarrier(pipeline.Full(stage), tile / 2 % 2);
    WgmmaFence();
    for (int step = 0; step < 4; ++step) {
      Wgmma<kType>(sums, SwizzledTile(pipeline.A(stage)) + static_cast<uint64_t>(2 * step),
                   SwizzledTile(pipeline.B(stage)) + static_cast<uint64_t>(2 * step),
                   tile > 0 || step > 0);
    }
    WgmmaCommit();
    if (tile > 0) {  // the last tile's products have ended
      WgmmaWait<1>(sums);
      Arrive(pipeline.Empty(1 - stage));
    }
  }
  WgmmaWait<0>(sums);
  StartDependentKernels();
  WriteSums(sums, ThreadX() - 128, a.out);
}

HOPPER_KERNEL(TiledProductF16, 256, 1, TiledProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyTiles<Number16::kF16>(a, window);
}
HOPPER_KERNEL(TiledProductBf16, 256, 1, TiledProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyTiles<Number16::kBf16>(a, window);
}

// Rows of 32 numbers in pieces of 8 rows by 16 bytes: those of K beside each other are 128 bytes
// apart.
GPU_DEVICE void StorePieces(const SharedWindow& window, int offset, const uint16_t* x, int rows) {
  for (int i = ThreadX(); i < rows * 32; i += BlockThreads()) {
    const int row = i / 32;
    const int k = i % 32;
    window.Store<uint16_t>(offset + row / 8 * 512 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2, x[i]);
  }
}

template <Number16 kType, int kN>
GPU_DEVICE void MultiplyShared(const RegisterProductArguments& a, const SharedWindow& window) {
  constexpr int kA = 1024;
  constexpr int kB = kA + 64 * 64;
  StorePieces(window, kA, a.a, 64);
  StorePieces(window, kB, a.b, kN);
  FenceProxy();
  SyncBlock();
  WgmmaSums<kN> sums;
  WgmmaFence();
  for (int step = 0; step < 2; ++step) {
    Wgmma<kType>(sums, PlainTile(window.Address(kA + step * 256), 128, 512),
                 PlainTile(window.Address(kB + step * 256), 128, 512), step > 0);
  }
  WgmmaCommit();
  WgmmaWait<0>(sums);
  WriteSums(sums, ThreadX(), a.out);
}

HOPPER_KERNEL(SharedProduct8, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyShared<Number16::kF16, 8>(a, window);
}
HOPPER_KERNEL(SharedProduct128, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyShared<Number16::kF16, 128>(a, window);
}
HOPPER_KERNEL(SharedProduct256, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyShared<Number16::kBf16, 256>(a, window);
}

template <Number16 kType, int kN>
GPU_DEVICE void MultiplyRegisters(const RegisterProductArguments& a, const SharedWindow& window) {
  constexpr int kA = 1024;
  constexpr int kB = kA + 64 * 64;
  const uint32_t barrier = window.Address(0);
  if (ThreadX() == 0) {
    InitBarrier(barrier, 1);
    FenceBarrierInit();
    ArriveAndExpect(barrier, 64 * 64);
    CopyBytes(window.Address(kA), a.a, 64 * 64, barrier);
  }
  StorePieces(window, kB, a.b, kN);
  FenceProxy();
  SyncBlock();
  WaitBarrier(barrier, 0);
  WgmmaSums<kN> sums;
  for (int step = 0; step < 2; ++step) {
    WgmmaOperand operand;
    uint32_t pairs[4];
    const int lane = ThreadX() % 32;
    const int row = ThreadX() / 32 * 16 + lane % 16;
    LoadMatrices<false>(pairs, window.Address(kA + row * 64 + step * 32 + lane / 16 * 16));
    GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      operand[i] = pairs[i];
    }
    WgmmaFence();
    Wgmma<kType>(sums, operand, PlainTile(window.Address(kB + step * 256), 128, 512), step > 0);
    WgmmaCommit();
    WgmmaWait<0>(sums);
  }
  WriteSums(sums, ThreadX(), a.out);
}

HOPPER_KERNEL(RegisterProduct8, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyRegisters<Number16::kF16, 8>(a, window);
}
HOPPER_KERNEL(RegisterProduct64, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyRegisters<Number16::kF16, 64>(a, window);
}
HOPPER_KERNEL(RegisterProduct128, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyRegisters<Number16::kBf16, 128>(a, window);
}
HOPPER_KERNEL(RegisterProduct256, 128, 1, RegisterProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyRegisters<Number16::kF16, 256>(a, window);
}

template <Number16 kType>
GPU_DEVICE void MultiplyByOneWarp(const WarpProductArguments& a, const SharedWindow& window) {
  constexpr int kB = 512;
  const int lane = ThreadX();
  for (int i = lane; i < 256; i += 32) {
    window.Store<uint16_t>(2 * i, a.a[i]);
  }
  for (int i = lane; i < 128; i += 32) {
    window.Store<uint16_t>(kB + 2 * i, a.b[i]);
  }
  SyncBlock();
  uint32_t left[4];
  uint32_t right[2];
  LoadMatrices<false>(left, window.Address(lane % 16 * 32 + lane / 16 * 16));
  if (a.b_has_columns) {
    LoadMatrices<false>(right, window.Address(kB + lane % 8 * 32 + lane / 8 % 2 * 16));
  } else {
    LoadMatrices<true>(right, window.Address(kB + lane % 16 * 16));
  }
  float sums[4];
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    sums[i] = a.out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
  }
  MultiplyByWarp<kType>(sums, left, right);
  // A second matrix of four, transposed twice, is the first one again.
  uint32_t transposed[4];
  LoadMatrices<true>(transposed, window.Address(lane % 16 * 32 + lane / 16 * 16));
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    a.out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
    a.out[128 + 4 * lane + i] = __builtin_bit_cast(float, transposed[i]);
  }
}

HOPPER_KERNEL(WarpProductF16, 32, 1, WarpProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyByOneWarp<Number16::kF16>(a, window);
}
HOPPER_KERNEL(WarpProductBf16, 32, 1, WarpProductArguments a) {
  HOPPER_SHARED(window);
  MultiplyByOneWarp<Number16::kBf16>(a, window);
}

}  // namespace fathom::testing
