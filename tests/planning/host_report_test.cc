#include "planning/host_report.h"

#include <gtest/gtest.h>

namespace fathom::planning {
namespace {

StreamingCounts Counts() {
  return {.hash_uses = 20,
          .hash_hits = 11,
          .learned_uses = 180,
          .learned_hits = 111,
          .read_bytes = 2'620'000'000,
          .tokens = 2,
          .stall_seconds = 0.0246,
          .stall_busy_seconds = 0.02436,
          .stall_bytes = 66'666'000,
          .disk_busy_seconds = 0.97037,
          .slots = 1694,
          .used_slots = 1690,
          .slot_bytes = 13'400'000};
}

TEST(DescribeStreaming, SaysWhatWasReadAndHowFast) {
  EXPECT_EQ(Describe(Counts()),
            "experts from disk: hit rate 0.61 (hash layers 0.55), 1.310 GB read per token at 2.70 "
            "GB/s, 12.3 ms waited per token (the disk busy 99 % of it, 2.71 GB/s); pool 1690 of "
            "1694 slots, 22.7 GB");
}

TEST(DescribeStreaming, LeavesOutWhatDidNotHappen) {
  StreamingCounts counts = Counts();
  counts.hash_uses = counts.hash_hits = 0;
  counts.stall_seconds = counts.stall_busy_seconds = 0;
  EXPECT_EQ(Describe(counts),
            "experts from disk: hit rate 0.62, 1.310 GB read per token at 2.70 GB/s, 0.0 ms waited "
            "per token; pool 1690 of 1694 slots, 22.7 GB");
}

// A run that ends before its first step.
TEST(DescribeStreaming, DividesByNothing) {
  EXPECT_EQ(Describe(StreamingCounts{.slots = 24, .slot_bytes = 1'000'000'000}),
            "experts from disk: hit rate 0.00, 0.000 GB read per token at 0.00 GB/s, 0.0 ms waited "
            "per token; pool 0 of 24 slots, 24.0 GB");
}

}  // namespace
}  // namespace fathom::planning
