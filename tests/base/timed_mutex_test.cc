#include "base/timed_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace fathom {
namespace {

constexpr std::chrono::milliseconds kShort{1};
constexpr std::chrono::minutes kLong{1};

TEST(TimedMutex, OneThreadAtATime) {
  TimedMutex mutex;
  int n = 0;
  constexpr int kThreads = 4;
  constexpr int kTimes = 5000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kTimes; ++k) {
        std::unique_lock lock(mutex, std::defer_lock);
        if (i % 2 == 0) {
          lock.lock();
        } else {
          while (!lock.try_lock_for(kShort)) {
          }
        }
        ++n;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n, kThreads * kTimes);
}

TEST(TimedMutex, WaitsNoLongerThanItMay) {
  TimedMutex mutex;
  const std::unique_lock held(mutex);
  std::thread([&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_for(kShort));
  }).join();
}

TEST(TimedMutex, AllWhoWaitGetIt) {
  TimedMutex mutex;
  std::atomic<int> n_had = 0;
  std::vector<std::thread> threads;
  {
    const std::unique_lock held(mutex);
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const std::unique_lock lock(mutex, kLong);
        if (lock.owns_lock()) ++n_had;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_had, 3);
  EXPECT_TRUE(mutex.try_lock()) << "nobody holds it";
}

}  // namespace
}  // namespace fathom
