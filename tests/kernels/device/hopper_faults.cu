// Kernels that rely on what Hopper's units do not promise.
#include "hopper_kernels.h"
#include "tests/hopper/hopper.h"

namespace fathom::testing {

// Places in shared memory.
constexpr int kFaultBarrier = 0;
constexpr int kFaultA = 1024;            // 64 rows of 32 bytes, in pieces of 8 rows by 16 bytes
constexpr int kFaultB = kFaultA + 2048;  // the same
constexpr int kFaultTarget = 8192;       // of copies: 1 KiB

GPU_DEVICE uint64_t FaultTile(const SharedWindow& window, int offset) {
  return PlainTile(window.Address(offset), 128, 256);
}

GPU_DEVICE void FaultyProduct(const HopperFaultArguments& a, const SharedWindow& window) {
  const HopperFault fault = a.fault;
  const int written = fault == HopperFault::kUnwrittenOperand ? 1024 : 2048;
  for (int i = 4 * ThreadX(); i < written; i += 4 * BlockThreads()) {
    window.Store<uint32_t>(kFaultA + i, 0x3C003C00);
    window.Store<uint32_t>(kFaultB + i, 0x3C003C00);
  }
  if (fault != HopperFault::kNoProxyFence) {
    FenceProxy();
  }
  SyncBlock();
  WgmmaSums<64> sums;
  WgmmaOperand operand;
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    operand[i] = 0x3C003C00;
  }
  WgmmaFence();
  if (fault == HopperFault::kNoWgmmaFence) {
    sums[3] = 0.0f;
  }
  uint64_t b = FaultTile(window, kFaultB);
  if (fault == HopperFault::kBadDescriptor) {
    b |= uint64_t{1} << 49;
  }
  if (fault == HopperFault::kTwoDescriptors && ThreadX() == 77) {
    b += 2;
  }
  if (fault == HopperFault::kNoMeeting && ThreadX() < 64) return;
  Wgmma<Number16::kF16>(sums, FaultTile(window, kFaultA), b, false);
  Wgmma<Number16::kF16>(sums, operand, b, true);
  WgmmaCommit();
  if (fault == HopperFault::kWriteUnderProduct && ThreadX() == 9) {
    window.Store<uint32_t>(kFaultB + 64, 0);
  }
  if (fault == HopperFault::kOperandBeforeWait) {
    operand[2] = 0;
  }
  if (fault == HopperFault::kSumsBeforeWait) {
    a.out[ThreadX()] = sums[5];
  }
  if (fault == HopperFault::kEndsWithProduct) return;
  WgmmaWait<0>(sums);
  a.out[ThreadX()] = sums[5];
}

GPU_DEVICE void FaultyCopy(const HopperFaultArguments& a, const SharedWindow& window) {
  const HopperFault fault = a.fault;
  const uint32_t barrier = window.Address(kFaultBarrier);
  const uint32_t target = window.Address(kFaultTarget);
  const bool copies = ThreadX() == 0;
  if (copies) {
    InitBarrier(barrier, 1);
    if (fault != HopperFault::kUnfencedInit) {
      FenceBarrierInit();
    }
  }
  if (fault == HopperFault::kUnseenInit && ThreadX() == 64) {
    SyncNamed(2, 32);  // lets other warps begin, and orders nothing with them
    WaitBarrier(barrier, 1);
  } else if (fault == HopperFault::kUnseenInit && ThreadX() > 64 && ThreadX() < 96) {
    SyncNamed(2, 32);
  }
  SyncBlock();
  if (copies) {
    if (fault == HopperFault::kUnalignedCopy) {
      CopyBytes(target + 8, a.in, 1024, barrier);
    } else if (fault == HopperFault::kUnalignedTile) {
      CopyTile(target + 64, a.map, 0, 0, barrier);
    }
    ArriveAndExpect(barrier, fault == HopperFault::kMissingBytes ? 1040 : 1024);
    if (fault == HopperFault::kOverArrival) {
      Arrive(barrier);
    }
    CopyBytes(target, a.in, 1024, barrier);
    if (fault == HopperFault::kArrivalInNextPhase) {
      Arrive(barrier);
    }
    if (fault == HopperFault::kTwoCopies) {
      CopyBytes(target, a.in, 1024, barrier);
    }
  }
  SyncBlock();
  if (fault == HopperFault::kEndsWithCopy) return;
  if (fault == HopperFault::kReadBeforeWait) {
    a.out[ThreadX()] = window.Load<float>(kFaultTarget + 4 * ThreadX());
  }
  if (fault != HopperFault::kReadWithoutWait || ThreadX() == 0) {
    WaitBarrier(barrier, 0);
  }
  a.out[ThreadX()] = window.Load<float>(kFaultTarget + 4 * ThreadX());
}

GPU_DEVICE void FaultyUse(const HopperFaultArguments& a, const SharedWindow& window) {
  switch (a.fault) {
    case HopperFault::kNoBarrier:
      Arrive(window.Address(kFaultBarrier + 8));
      break;
    case HopperFault::kBarrierIsData:
      if (ThreadX() == 0) {
        InitBarrier(window.Address(kFaultBarrier), 1);
      }
      SyncBlock();
      a.out[ThreadX()] = window.Load<float>(kFaultBarrier);
      break;
    case HopperFault::kRace:
      window.Store(kFaultTarget, ThreadX());
      break;
    case HopperFault::kUnwritten:
      a.out[ThreadX()] = window.Load<float>(kFaultTarget);
      break;
    case HopperFault::kBehindTheEnd:
      window.Store(kHopperFaultShared - 2, ThreadX());
      break;
    case HopperFault::kNoSuchBlock:
      window.StoreTo(1, kFaultTarget, ThreadX());
      break;
    case HopperFault::kTooManyRegisters:
      TakeRegisters<256>();
      TakeRegisters<24>();
      break;
    case HopperFault::kUnequalNamed:
      if (ThreadX() < 96) {
        SyncNamed(3, 128);
      }
      break;
    case HopperFault::kBadNamed:
      SyncNamed(3, 100);
      break;
    default:
      break;
  }
}

HOPPER_KERNEL(HopperFaulty, 128, 1, HopperFaultArguments a) {
  HOPPER_SHARED(window);
  if (a.fault >= HopperFault::kNoBarrier) {
    FaultyUse(a, window);
  } else if (a.fault >= HopperFault::kRightCopy) {
    FaultyCopy(a, window);
  } else {
    FaultyProduct(a, window);
  }
}

}  // namespace fathom::testing
