// The emulator names what a kernel does that Hopper's units do not promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/hopper_runs.h"

namespace fathom::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HopperFaults : public HopperRuns {
 protected:
  std::string ErrorOfFault(HopperFault fault) {
    AlignedVector<std::uint32_t> in(256);
    out_.assign(128, 0.0f);
    const HopperFaultArguments arguments = {
        fault, in.data(),
        emulator::ToTensorMap({.data = reinterpret_cast<const std::byte*>(in.data()),
                               .rows = 8,
                               .columns = 32,
                               .row_bytes = 128,
                               .element_bytes = 4,
                               .tile_rows = 8,
                               .tile_columns = 32}),
        out_.data()};
    return RunForError(fathom_emulated_HopperFaulty(),
                       {.threads = 128, .shared_bytes = kHopperFaultShared}, arguments);
  }
  std::vector<float> out_;
};
INSTANTIATE_TEST_SUITE_P(Runs, HopperFaults, EveryHopperRun());

TEST_P(HopperFaults, NothingIsSaidWithoutAFault) {
  EXPECT_EQ(ErrorOfFault(HopperFault::kNone), "");
  EXPECT_EQ(out_.front(), 32.0f);
  EXPECT_EQ(ErrorOfFault(HopperFault::kRightCopy), "");
}

TEST_P(HopperFaults, OfProducts) {
  const std::pair<HopperFault, const char*> faults[] = {
      {HopperFault::kNoProxyFence, "has written, without a FenceProxy behind it"},
      {HopperFault::kNoWgmmaFence, "without a WgmmaFence behind the last use of its registers"},
      {HopperFault::kSumsBeforeWait, "uses registers of an unfinished product"},
      {HopperFault::kOperandBeforeWait, "uses registers of an unfinished product"},
      {HopperFault::kWriteUnderProduct,
       "thread 9 writes byte 3136 of shared memory, which an unfinished product reads"},
      {HopperFault::kEndsWithProduct, "it ends with an unfinished product of a warpgroup"},
      {HopperFault::kUnwrittenOperand, "which nobody has written"},
      {HopperFault::kBadDescriptor, "expected a descriptor without base offset"},
      {HopperFault::kTwoDescriptors, "expected one descriptor of all threads, found several"},
      {HopperFault::kNoMeeting,
       "expected all threads at one meeting point, found: thread 0 has "
       "ended, thread 64 waits at Wgmma (hopper_faults.cu:"}};
  for (const auto& [fault, what] : faults) {
    EXPECT_THAT(ErrorOfFault(fault), AllOf(StartsWith("kernel Tested"), HasSubstr(what)))
        << static_cast<int>(fault);
  }
}

TEST_P(HopperFaults, OfBarriersAndCopies) {
  const std::pair<HopperFault, const char*> faults[] = {
      {HopperFault::kOverArrival, "expected 1 arrivals in a phase, found one more"},
      {HopperFault::kUnfencedInit, "made without a FenceBarrierInit"},
      {HopperFault::kUnalignedCopy, "copies 1024 bytes from "},
      {HopperFault::kUnalignedTile, "and a place aligned to 128"},
      {HopperFault::kMissingBytes,
       "expected a thread that can go on, found: thread 0 waits at "
       "WaitBarrier (hopper_faults.cu:"},
      {HopperFault::kNoBarrier, "arrives at a barrier at byte 8, where there is none"},
      {HopperFault::kBarrierIsData, "which is a barrier"}};
  for (const auto& [fault, what] : faults) {
    EXPECT_THAT(ErrorOfFault(fault), AllOf(StartsWith("kernel Tested"), HasSubstr(what)))
        << static_cast<int>(fault);
  }
}

// The fault shows at one of two places: before or behind the end of a copy, or of another thread.
TEST_P(HopperFaults, OfWhatIsNotOver) {
  const auto either = [](const char* one, const char* other) {
    return AllOf(StartsWith("kernel Tested, block (0, 0): thread "),
                 AnyOf(HasSubstr(one), HasSubstr(other)));
  };
  const char* const unfinished = "which an unfinished copy writes";
  const char* const unawaited = "which a copy has written, without a wait for its barrier";
  EXPECT_THAT(ErrorOfFault(HopperFault::kReadBeforeWait),
              HasSubstr(IsLatest() ? unfinished : unawaited));
  EXPECT_THAT(ErrorOfFault(HopperFault::kReadWithoutWait),
              HasSubstr(IsLatest() ? unfinished : unawaited));
  EXPECT_THAT(ErrorOfFault(HopperFault::kTwoCopies),
              HasSubstr(IsLatest() ? unfinished : unawaited));
  EXPECT_THAT(ErrorOfFault(HopperFault::kUnseenInit),
              either("where there is none", "without a meeting between them"));
  EXPECT_THAT(ErrorOfFault(HopperFault::kArrivalInNextPhase),
              either("found one more", "before anybody has waited for the last one"));
  const std::string ends = ErrorOfFault(HopperFault::kEndsWithCopy);
  EXPECT_EQ(ends, IsLatest() ? "kernel Tested: it ends with an unfinished copy" : "");
}

TEST_P(HopperFaults, OfALaunch) {
  std::vector<float> numbers(64 * kSumCluster);
  const ClusterSumArguments arguments = {numbers.data(), numbers.data()};
  EXPECT_THAT(
      RunForError(fathom_emulated_ClusterSum(),
                  {.x = kSumCluster, .threads = 64, .shared_bytes = kHopperSharedBytes + 16},
                  arguments),
      HasSubstr("expected at most 232448 bytes of shared memory, found 232464"));
}

TEST_P(HopperFaults, OfSharedMemoryAndMeetings) {
  const std::pair<HopperFault, const char*> faults[] = {
      {HopperFault::kRace, "of shared memory, a race: thread "},
      {HopperFault::kUnwritten, "of shared memory, which nobody has written"},
      {HopperFault::kBehindTheEnd, "writes bytes 16382 to 16386 of shared memory, which has 16384"},
      {HopperFault::kNoSuchBlock, "expected an address of a cluster of 1 blocks"},
      {HopperFault::kTooManyRegisters, "expected 24 to 256 registers"},
      {HopperFault::kUnequalNamed, "waits at SyncNamed (hopper_faults.cu:"},
      {HopperFault::kBadNamed, "expected a number from 1 to 15 and whole waves, found 3 and 100"}};
  for (const auto& [fault, what] : faults) {
    EXPECT_THAT(ErrorOfFault(fault), AllOf(StartsWith("kernel Tested"), HasSubstr(what)))
        << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace fathom::testing
