// Compilations that take long: whom they delay, how many have begun, when they end.
#include "runtime/compile_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "base/this_thread.h"
#include "tests/testing/threads.h"

namespace fathom::testing {
namespace {

using Compiled = CompileTurns::Compiled;

// A thread that compiles.
class Compilation {
 public:
  Compilation(CompileTurns& turns, const std::string& owner, const CompileTurns::Work& work)
      : thread_([this, &turns, owner, work] {
          const Caller caller = {.owner = owner,
                                 .is_abandoned = [this] { return is_left_.load(); }};
          compiled_ = turns.Compile(caller, work);
          is_done_ = true;
        }) {}
  ~Compilation() { Leave(); }

  void Leave() { is_left_ = true; }
  bool is_done() const { return is_done_; }
  // Waits for the result.
  const Compiled& compiled() {
    if (thread_.joinable()) thread_.join();
    return compiled_;
  }

 private:
  std::atomic<bool> is_left_ = false;
  std::atomic<bool> is_done_ = false;
  Compiled compiled_;
  std::jthread thread_;
};

Compiled Stopped() {
  return tl::unexpected<ConstraintError>(ConstraintError{.code = ConstraintErrorCode::kStopped});
}

// Asks until `seconds` of processor time have passed, or the pace ends the work.
Compiled Take(double seconds, WorkPace& pace) {
  const ThreadWatch watch;
  while (!watch.HasRun(seconds)) {
    if (!pace.GoesOn()) return Stopped();
  }
  return nullptr;
}

constexpr double kForever = 1e9;

// Work without end, which counts how often it has begun, slowly, and is going on.
struct Endless {
  CompileTurns::Work Work() {
    return [this](WorkPace& pace) {
      if (Priority() != kLeastPriority) return Take(kForever, pace);
      ++n_begun;
      ++n_now;
      Compiled compiled = Take(kForever, pace);
      --n_now;
      return compiled;
    };
  }
  std::atomic<int> n_begun = 0;
  std::atomic<int> n_now = 0;
};

TEST(CompileTurns, QuickWorkIsDoneAtOnce) {
  CompileTurns turns;
  int n_calls = 0;
  const auto caller = std::this_thread::get_id();
  const Compiled compiled = turns.Compile({}, [&](WorkPace& pace) {
    ++n_calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return Take(0.0001, pace);
  });
  EXPECT_TRUE(compiled);
  EXPECT_EQ(n_calls, 1);
}

TEST(CompileTurns, ErrorsPassThrough) {
  CompileTurns turns;
  for (const double seconds : {0.0, 0.02}) {
    const Compiled compiled = turns.Compile({}, [&](WorkPace& pace) -> Compiled {
      if (Compiled taken = Take(seconds, pace); !taken) return taken;
      return tl::unexpected<ConstraintError>(
          ConstraintError{.code = ConstraintErrorCode::kInvalidSchema, .message = "so"});
    });
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().message, "so");
  }
}

TEST(CompileTurns, SlowWorkBeginsAgainWithTheLeastPriority) {
  CompileTurns turns;
  const int priority = Priority();
  std::vector<int> priorities;
  const Compiled compiled = turns.Compile({}, [&](WorkPace& pace) {
    priorities.push_back(Priority());
    return Take(0.02, pace);
  });
  EXPECT_TRUE(compiled);
  EXPECT_THAT(priorities, ::testing::ElementsAre(priority, kLeastPriority));
  EXPECT_EQ(Priority(), priority);
}

TEST(CompileTurns, OneOfManyOwnersIsNext) {
  CompileTurns turns;
  Endless endless;
  std::list<Compilation> many;
  for (int i = 0; i < 60; ++i) many.emplace_back(turns, "a", endless.Work());
  ASSERT_TRUE(Await([&] { return endless.n_now == 2; }));
  Compilation other(turns, "b", [](WorkPace& pace) { return Take(0.05, pace); });
  EXPECT_TRUE(Await([&] { return other.is_done(); }));
  EXPECT_TRUE(other.compiled());
  EXPECT_EQ(endless.n_begun, 2) << "the other requests of an owner wait without having begun";
  for (Compilation& request : many) EXPECT_FALSE(request.is_done());
  for (Compilation& request : many) request.Leave();
}

TEST(CompileTurns, AbandonedRequestsLeaveTheQueue) {
  CompileTurns turns;
  Endless endless;
  std::list<Compilation> many;
  for (int i = 0; i < 8; ++i) many.emplace_back(turns, "a", endless.Work());
  ASSERT_TRUE(Await([&] { return endless.n_now == 2; }));
  const auto n_done = [&] {
    return std::ranges::count_if(many,
                                 [](const Compilation& request) { return request.is_done(); });
  };
  EXPECT_EQ(n_done(), 0);
  for (Compilation& request : many) request.Leave();
  EXPECT_TRUE(Await([&] { return n_done() == 8; }));
  for (Compilation& request : many) {
    ASSERT_FALSE(request.compiled());
    EXPECT_EQ(request.compiled().error().code, ConstraintErrorCode::kStopped);
  }
  EXPECT_EQ(endless.n_now, 0);
  // The places are free again.
  EXPECT_TRUE(turns.Compile({.owner = "a"}, [](WorkPace& pace) { return Take(0.02, pace); }));
}

TEST(CompileTurns, AbandonedRequestsWaitForNothing) {
  CompileTurns turns;
  for (const double seconds : {0.0, 0.02}) {
    std::atomic<bool> waits = false;
    Compilation request(turns, "a", [&](WorkPace& pace) -> Compiled {
      if (Compiled taken = Take(seconds, pace); !taken) return taken;
      do {
        pace.BeginWait();
        waits = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        pace.EndWait();
      } while (pace.GoesOn());
      return Stopped();
    });
    ASSERT_TRUE(Await([&] { return waits.load(); }));
    EXPECT_FALSE(request.is_done());
    request.Leave();
    EXPECT_TRUE(Await([&] { return request.is_done(); }));
  }
}

// A thread that works without asking keeps its place.
class Blocked {
 public:
  CompileTurns::Work Work() {
    return [this](WorkPace& pace) -> Compiled {
      if (!pace.GoesOn()) return Stopped();
      ++n_blocked_;
      while (!is_open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return nullptr;
    };
  }
  // Likewise, as at a lock that others have.
  CompileTurns::Work WaitingWork() {
    return [this](WorkPace& pace) -> Compiled {
      if (!pace.GoesOn()) return Stopped();
      pace.BeginWait();
      ++n_blocked_;
      while (!is_open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      pace.EndWait();
      return Take(0.0001, pace);
    };
  }
  void Open() { is_open_ = true; }
  int n_blocked() const { return n_blocked_; }

 private:
  std::atomic<bool> is_open_ = false;
  std::atomic<int> n_blocked_ = 0;
};

TEST(CompileTurns, QuickWorkOfTwoRequestsAtOnce) {
  CompileTurns turns;
  Blocked blocked;
  std::list<Compilation> holding;
  for (int i = 0; i < 3; ++i) holding.emplace_back(turns, "a", blocked.Work());
  ASSERT_TRUE(Await([&] { return blocked.n_blocked() == 2; }));
  const Compiled known =
      turns.Compile({.owner = "b"}, [](WorkPace&) -> Compiled { return nullptr; });
  EXPECT_TRUE(known) << "what is known needs no place";
  Compilation other(turns, "b", [](WorkPace& pace) { return Take(0.0001, pace); });
  EXPECT_EQ(blocked.n_blocked(), 2);
  EXPECT_FALSE(other.is_done());
  blocked.Open();
  EXPECT_TRUE(other.compiled());
  for (Compilation& request : holding) EXPECT_TRUE(request.compiled());
}

TEST(CompileTurns, WaitingForALockHoldsNoPlace) {
  CompileTurns turns;
  Blocked blocked;
  std::list<Compilation> waiting;
  for (int i = 0; i < 6; ++i) waiting.emplace_back(turns, "a", blocked.WaitingWork());
  ASSERT_TRUE(Await([&] { return blocked.n_blocked() == 6; }));
  EXPECT_TRUE(turns.Compile({.owner = "a"}, [](WorkPace& pace) { return Take(0.02, pace); }));
  blocked.Open();
  for (Compilation& request : waiting) EXPECT_TRUE(request.compiled());
}

}  // namespace
}  // namespace fathom::testing
