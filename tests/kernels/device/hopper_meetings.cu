// Copies, clusters and flags with Hopper's units.
#include "hopper_kernels.h"
#include "tests/hopper/hopper.h"

namespace fathom::testing {

HOPPER_KERNEL(ClusterSum, 64, kSumCluster, ClusterSumArguments a) {
  HOPPER_SHARED(window);
  constexpr int kSum = 64 * 4;
  window.Store(4 * ThreadX(), a.x[BlockX() * 64 + ThreadX()]);
  SyncNamed(1, 64);
  if (ThreadX() == 0) {
    float sum = 0.0f;
    for (int i = 0; i < 64; ++i) {
      sum += window.Load<float>(4 * i);
    }
    window.Store(kSum, sum);
  }
  SyncCluster();
  if (ClusterRank() == 0 && ThreadX() == 0) {
    float sum = 0.0f;
    for (int rank = 0; rank < kSumCluster; ++rank) {
      sum += window.LoadFrom<float>(rank, kSum);
    }
    for (int rank = 0; rank < kSumCluster; ++rank) {
      window.StoreTo(rank, kSum + 4, sum);
    }
  }
  SyncCluster();
  if (ThreadX() == 0) {
    a.out[BlockX()] = window.Load<float>(kSum + 4);
  }
}

HOPPER_KERNEL(TileCopy, 64, 1, TileCopyArguments a) {
  HOPPER_SHARED(window);
  const uint32_t barrier = window.Address(0);
  if (ThreadX() == 0) {
    InitBarrier(barrier, 1);
    FenceBarrierInit();
    CopyTile(window.Address(1024), a.map, a.column, a.row,
             barrier);  // may come before it is expected
    ArriveAndExpect(barrier, a.bytes);
  }
  SyncBlock();
  WaitBarrier(barrier, 0);
  for (int i = ThreadX(); i < a.bytes; i += BlockThreads()) {
    a.out[i] = window.Load<unsigned char>(1024 + i);
  }
}

HOPPER_KERNEL(MoveRegisters, 384, 1, MoveRegistersArguments a) {
  if (ThreadX() >= 128) {
    TakeRegisters<240>();
  } else if (a.releases) {
    ReleaseRegisters<24>();
  }
  a.out[ThreadX()] = 1;
}

HOPPER_KERNEL(PeerSum, 64, 1, PeerSumArguments a) {
  const int64_t n = GridX() * BlockThreads();
  const int64_t at = BlockX() * BlockThreads() + ThreadX();
  for (int peer = 0; peer < a.n_ranks; ++peer) {
    a.told[peer][a.rank * n + at] = a.first + ThreadX();
  }
  SyncBlock();
  if (ThreadX() == 0) {
    for (int peer = 0; peer < a.n_ranks; ++peer) {
      AddToFlag(a.flags[peer], 1);
    }
    WaitForFlag(a.flags[a.rank], static_cast<uint32_t>(a.n_ranks * GridX()));
    SetFlag(a.flags[a.rank] + 1, 1);
  }
  SyncBlock();
  int32_t sum = 0;
  for (int peer = 0; peer < a.n_ranks; ++peer) {
    sum += a.told[a.rank][peer * n + n - 1 - at];  // of another block of each peer
  }
  a.out[at] = sum;
}

}  // namespace fathom::testing
