#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

namespace fathom {
namespace {

void Sleep(std::int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

TEST(ThreadTeam, CoversEveryIndexOnce) {
  for (const int n_threads : {1, 2, 3, 5}) {
    ThreadTeam team(n_threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1001}) {
      for (const std::int64_t grain : {-1, 0, 1, 3, 64}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        team.For(count, grain, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_EQ(begin % std::max<std::int64_t>(grain, 1), 0);
          for (std::int64_t i = begin; i < end; ++i) {
            ++visits[static_cast<std::size_t>(i)];
          }
        });
        EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
      }
    }
  }
}

// Delays threads at random, between loops and inside them; other threads take their work.
TEST(ThreadTeam, RandomLoopsWithDelayedWorkers) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 20; ++round) {
    const int n_threads = 2 + below(6);
    ThreadTeam team(n_threads);
    // If `worker` is right, one thread at a time uses the entry; else tsan finds a race.
    std::vector<std::int64_t> per_worker(static_cast<std::size_t>(n_threads), 0);
    std::int64_t expected = 0;
    for (int loop = 0; loop < 50; ++loop) {
      const std::int64_t count = below(300);
      const std::int64_t grain = 1 + below(8);
      const int slow = below(n_threads);
      const int delay = below(4) == 0 ? 200 : 0;
      std::vector<int> visits(static_cast<std::size_t>(count), 0);
      team.For(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
        ASSERT_LT(worker, n_threads);
        if (worker == slow && delay > 0) {
          Sleep(delay);
        }
        per_worker[static_cast<std::size_t>(worker)] += end - begin;
        for (std::int64_t i = begin; i < end; ++i) {
          ++visits[static_cast<std::size_t>(i)];
        }
      });
      ASSERT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
      expected += count;
    }
    std::int64_t sum = 0;
    for (const std::int64_t part : per_worker) {
      sum += part;
    }
    EXPECT_EQ(sum, expected);
  }
}

// The thread that runs the first index waits until all other indices are done, which happens only
// if other threads take the rest of its share.
TEST(ThreadTeam, OthersTakeTheShareOfAThreadThatIsHeldUp) {
  constexpr int kCount = 1000;
  for (const int held_up : {0, kCount - 1}) {
    ThreadTeam team(2);
    std::atomic<int> done = 0;
    std::int64_t piece_of_held_up = 0;
    team.For(kCount, 1, [&](std::int64_t begin, std::int64_t end) {
      if (begin <= held_up && held_up < end) {
        piece_of_held_up = end - begin;
        while (done.load() < kCount - (end - begin)) {
          std::this_thread::yield();
        }
      }
      done += static_cast<int>(end - begin);
    });
    EXPECT_EQ(done, kCount);
    EXPECT_LT(piece_of_held_up, kCount / 4);
  }
}

TEST(ThreadTeam, ManyRoundsWithSleepsBetween) {
  ThreadTeam team(3);
  std::vector<std::int64_t> sums(300, 0);
  for (int round = 0; round < 2000; ++round) {
    if (round % 500 == 0) {
      Sleep(2000);  // let the workers fall asleep
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

TEST(ThreadTeam, EndsWhileItsThreadsSpinOrSleepOrHaveNotBegun) {
  for (const int microseconds : {0, 10, 2000}) {
    for (int i = 0; i < 20; ++i) {
      ThreadTeam team(4);
      Sleep(microseconds);
    }
  }
}

TEST(ThreadTeamDeathTest, LoopsAreNotNested) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int n_threads : {1, 2}) {
    EXPECT_DEATH(
        {
          ThreadTeam team(n_threads);
          team.For(10, 1, [&](std::int64_t, std::int64_t) {
            team.For(10, 1, [](std::int64_t, std::int64_t) {});
          });
        },
        "a loop of a team inside its loop");
  }
}

}  // namespace
}  // namespace fathom
