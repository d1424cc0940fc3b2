#include "http/thread_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

namespace fathom::http {
namespace {

TEST(ThreadGroupTest, RunsEverythingAndWaitsForIt) {
  std::atomic<int> n_run = 0;
  {
    ThreadGroup group;
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(group.Start([&] { ++n_run; }));
    group.Wait();
    EXPECT_EQ(n_run, 500);
    ASSERT_TRUE(group.Start([&] { ++n_run; }));
  }
  EXPECT_EQ(n_run, 501);
}

TEST(ThreadGroupTest, WaitsForNothing) {
  ThreadGroup group;
  group.Wait();
  group.Wait();
}

TEST(ThreadGroupTest, BlocksSignalsInItsThreadsOnly) {
  sigset_t inside;
  ::sigemptyset(&inside);
  ThreadGroup group;
  ASSERT_TRUE(group.Start([&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); }));
  group.Wait();
  sigset_t outside;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &outside);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGPIPE}) {
    EXPECT_EQ(::sigismember(&inside, signal), 1);
    EXPECT_EQ(::sigismember(&outside, signal), 0);
  }
}

}  // namespace
}  // namespace fathom::http
