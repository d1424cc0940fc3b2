// A kernel of a chain whose kernels overlap.
#include "early_kernels.h"
#include "tests/hopper/hopper.h"

namespace fathom::testing {

GPU_DEVICE void WaitInOrder(const EarlyStepArguments& a, int64_t at) {
  switch (a.order) {
    case EarlyOrder::kNoWait:
      break;
    case EarlyOrder::kStartsNext:
      StartDependentKernels();
      WaitForEarlierKernels();
      break;
    case EarlyOrder::kWaits:
      WaitForEarlierKernels();
      StartDependentKernels();
      break;
    case EarlyOrder::kOneThreadWaits:
    case EarlyOrder::kOneThreadAlone:
      if (ThreadX() == 0) {
        WaitForEarlierKernels();
      }
      if (a.order == EarlyOrder::kOneThreadWaits) {
        SyncBlock();
      }
      break;
    case EarlyOrder::kOneBlockWaits:
      StartDependentKernels();
      if (BlockX() == 0) {
        WaitForEarlierKernels();
      }
      break;
    case EarlyOrder::kOneBlockTells:
      if (BlockX() == 0) {
        WaitForEarlierKernels();
        SetFlag(a.flag, 1);
      } else {
        WaitForFlag(a.flag, 1);
      }
      break;
    case EarlyOrder::kNeverWaits:
      StartDependentKernels();
      break;
    case EarlyOrder::kNeitherStartsWaits:
      break;
    case EarlyOrder::kWritesFirst:
      a.out[at] = 0;
      WaitForEarlierKernels();
      break;
  }
}

template <bool kInCluster>
GPU_DEVICE void RunEarlyStep(const EarlyStepArguments& a, const SharedWindow& window) {
  constexpr int kCopied = 128;
  constexpr int kCopiedBytes = 4 * kEarlyThreads;
  const int64_t n = GridX() * BlockThreads();
  const int64_t at = BlockX() * BlockThreads() + ThreadX();
  const uint32_t barrier = window.Address(0);
  if (ThreadX() == 0) {
    InitBarrier(barrier, 1);
    FenceBarrierInit();
    ArriveAndExpect(barrier, kCopiedBytes);
    CopyBytes(window.Address(kCopied), a.copied + at, kCopiedBytes, barrier);
  }
  const int32_t early = a.early[at];
  if constexpr (kInCluster) {
    SyncCluster();
  } else {
    SyncBlock();
  }
  WaitInOrder(a, at);
  WaitBarrier(barrier, 0);
  a.out[at] = 3 * a.in[n - 1 - at] + early + window.Load<int32_t>(kCopied + 4 * ThreadX());
}

HOPPER_KERNEL(EarlyStep, kEarlyThreads, 1, EarlyStepArguments a) {
  HOPPER_SHARED(window);
  RunEarlyStep<false>(a, window);
}
HOPPER_KERNEL(EarlyClusterStep, kEarlyThreads, kEarlyCluster, EarlyStepArguments a) {
  HOPPER_SHARED(window);
  RunEarlyStep<true>(a, window);
}

}  // namespace fathom::testing
