#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace fathom {
namespace {

TEST(ThreadTeam, CoversEveryIndexOnce) {
  for (const int n_threads : {1, 2, 3, 5}) {
    ThreadTeam team(n_threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1001}) {
      for (const std::int64_t grain : {1, 3, 64}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        team.For(count, grain, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_EQ(begin % grain, 0);
          for (std::int64_t i = begin; i < end; ++i) {
            ++visits[static_cast<std::size_t>(i)];
          }
        });
        EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
}

TEST(ThreadTeam, ManyRoundsWithSleepsBetween) {
  ThreadTeam team(3);
  std::vector<std::int64_t> sums(300, 0);
  for (int round = 0; round < 2000; ++round) {
    if (round % 500 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // let the workers fall asleep
    }
    team.For(300, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        sums[static_cast<std::size_t>(i)] += i;
      }
    });
  }
  for (std::int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(sums[static_cast<std::size_t>(i)], 2000 * i);
  }
}

TEST(ThreadTeam, AtLeastOneProcessor) { EXPECT_GE(AvailableProcessors(), 1); }

}  // namespace
}  // namespace fathom
