// Masks that take long: whom they delay, in whose turn they are computed, when they end.
#include "engine/mask_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/this_thread.h"
#include "engine/constraint_path.h"
#include "tests/engine/fake_constraint.h"
#include "tests/testing/threads.h"

namespace fathom::testing {
namespace {

using Work = std::function<bool(std::int64_t, WorkPace&)>;

constexpr Token kEndToken = 1;

bool IsReady(const ConstraintPath& path) {
  return Await([&] { return path.IsReady(); });
}

// Work that goes on until it is released, or its pace ends it. It may outlive the object.
class HeldWork {
 public:
  // From the mask after so many tokens on. Masks before it are quick.
  Work From(std::int64_t first) const {
    return [state = state_, first](std::int64_t n_tokens, WorkPace& pace) {
      if (n_tokens < first) return true;
      ++state->n_begun;
      while (!state->is_released) {
        if (!pace.GoesOn()) {
          ++state->n_ended;
          return false;
        }
        if (Priority() == kLeastPriority) state->has_been_slow = true;
      }
      return true;
    };
  }
  void Release() { state_->is_released = true; }
  int n_begun() const { return state_->n_begun; }
  int n_ended() const { return state_->n_ended; }
  bool has_been_slow() const { return state_->has_been_slow; }

 private:
  struct State {
    std::atomic<bool> is_released = false;
    std::atomic<int> n_begun = 0;
    std::atomic<int> n_ended = 0;
    std::atomic<bool> has_been_slow = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A lock that work waits for until it is opened. Likewise.
class HeldLock {
 public:
  void Open() {
    {
      const std::lock_guard lock(state_->mutex);
      state_->is_open = true;
    }
    state_->opened.notify_all();
  }
  // Returns work that waits as a constraint does.
  Work Waiter() const {
    return [state = state_](std::int64_t, WorkPace& pace) {
      ++state->n_waiting;
      pace.BeginWait();
      state->Wait();
      pace.EndWait();
      return pace.GoesOn();
    };
  }
  // Returns work that waits without telling its pace.
  Work Holder() const {
    return [state = state_](std::int64_t, WorkPace&) {
      ++state->n_waiting;
      state->Wait();
      return true;
    };
  }
  int n_waiting() const { return state_->n_waiting; }

 private:
  struct State {
    void Wait() {
      std::unique_lock lock(mutex);
      opened.wait(lock, [this] { return is_open; });
    }

    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = false;
    std::atomic<int> n_waiting = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

void Burn(double seconds) {
  const ThreadWatch watch;
  while (watch.seconds() < seconds) {
  }
}

class MaskPoolTest : public ::testing::TestWithParam<QuickMasks> {
 protected:
  MaskPoolTest() { EXPECT_TRUE(pool_.Start()); }

  std::unique_ptr<ConstraintPath> Path(const std::string& owner, Work work = {}) {
    auto constraint = std::make_shared<FakeConstraint>(
        FakeConstraintOptions{.seed = ++seed_, .vocab_size = 130, .eos = kEndToken, .work = work});
    return std::make_unique<ConstraintPath>(std::move(constraint), owner, pool_);
  }
  std::vector<std::unique_ptr<ConstraintPath>> Paths(int n, const std::string& owner, Work work) {
    std::vector<std::unique_ptr<ConstraintPath>> paths;
    for (int i = 0; i < n; ++i) paths.push_back(Path(owner, work));
    return paths;
  }
  static Token NextToken(const ConstraintPath& path) {
    Token token = 0;
    while (token == kEndToken || !path.Find().mask.Allows(token)) ++token;
    return token;
  }
  // The masks of a short answer.
  static bool CanAnswer(ConstraintPath& path) {
    for (int i = 0; i < 10; ++i) {
      if (!IsReady(path) || path.Find().error) return false;
      path.Accept(NextToken(path));
    }
    return IsReady(path);
  }

  EngineMetrics metrics_{8};
  MaskPool pool_{&metrics_, GetParam()};
  std::uint64_t seed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(, MaskPoolTest,
                         ::testing::Values(QuickMasks::kThreads, QuickMasks::kAskers),
                         [](const auto& mode) {
                           return mode.param == QuickMasks::kThreads ? "Threads" : "Askers";
                         });

TEST_P(MaskPoolTest, HeavyFirstMasksDelayNoOthers) {
  for (const int n : {2, 8}) {
    HeldWork held;
    const auto heavy = Paths(n, "a", held.From(0));
    EXPECT_TRUE(CanAnswer(*Path("b")));
    EXPECT_TRUE(CanAnswer(*Path("a")));
    EXPECT_TRUE(std::ranges::none_of(heavy, [](const auto& path) { return path->IsReady(); }));
    held.Release();
    for (const auto& path : heavy) EXPECT_FALSE(path->Find().error);
  }
}

TEST_P(MaskPoolTest, SlowMasksHaveTheLeastPriority) {
  HeldWork held;
  std::atomic<int> priority = -100;
  const auto heavy = Path("a", held.From(0));
  ASSERT_TRUE(Await([&] { return held.has_been_slow(); }));
  const auto quick = Path("a", [&](std::int64_t, WorkPace&) {
    priority = Priority();
    return true;
  });
  ASSERT_TRUE(IsReady(*quick));
  EXPECT_EQ(priority, Priority());
  EXPECT_EQ(metrics_.Snapshot().slow_masks, 1);
  held.Release();
  ASSERT_TRUE(IsReady(*heavy));
  // The next one of the sequence begins as a slow one.
  heavy->Accept(NextToken(*heavy));
  ASSERT_TRUE(IsReady(*heavy));
  EXPECT_EQ(metrics_.Snapshot().slow_masks, 2);
}

// Two places for all: a mask of another owner has its turn beside masks without end.
TEST_P(MaskPoolTest, OwnersTakeTurnsWithSlowMasks) {
  HeldWork held;
  const auto heavy = Paths(6, "a", held.From(0));
  ASSERT_TRUE(Await([&] { return metrics_.Snapshot().slow_masks == 6; }));
  const auto other = Path("b", [](std::int64_t, WorkPace& pace) {
    for (int i = 0; i < 100; ++i) {
      Burn(0.0005);
      if (!pace.GoesOn()) return false;
    }
    return true;
  });
  ASSERT_TRUE(IsReady(*other));
  EXPECT_FALSE(other->Find().error);
  EXPECT_EQ(held.n_ended(), 0);
  held.Release();
}

TEST_P(MaskPoolTest, OwnersTakeTurnsWithQuickMasks) {
  HeldLock first;
  HeldLock later;
  const auto holding = Paths(8, "c", first.Holder());  // all quick threads
  ASSERT_TRUE(Await([&] { return first.n_waiting() >= 2; }));
  const auto many = Paths(30, "a", later.Holder());
  const auto other = Path("b");
  first.Open();
  EXPECT_TRUE(IsReady(*other)) << "only one mask of each other owner comes before";
  later.Open();
  for (const auto& path : many) EXPECT_FALSE(path->Find().error);
}

TEST_P(MaskPoolTest, ADroppedMaskEnds) {
  HeldWork held;
  auto heavy = Paths(5, "a", held.From(0));  // two with a place, and three that wait
  ASSERT_TRUE(Await([&] { return held.n_begun() == 5; }));
  heavy.clear();
  EXPECT_TRUE(Await([&] { return held.n_ended() == 5; }));
}

TEST_P(MaskPoolTest, ADroppedMaskEndsInTheQueue) {
  HeldLock lock;
  HeldWork held;
  const auto holding = Paths(8, "a", lock.Holder());
  ASSERT_TRUE(Await([&] { return lock.n_waiting() >= 2; }));
  Path("a", held.From(0)).reset();
  lock.Open();
  for (const auto& path : holding) path->Find();
  EXPECT_TRUE(CanAnswer(*Path("a")));
  EXPECT_EQ(held.n_begun(), 0);
}

TEST_P(MaskPoolTest, AForkKeepsItsMasks) {
  HeldWork held;
  auto first = Path("a", held.From(0));
  const ConstraintPath fork(*first);
  ASSERT_TRUE(Await([&] { return held.has_been_slow(); }));
  first.reset();
  held.Release();
  EXPECT_TRUE(IsReady(fork));
  EXPECT_FALSE(fork.Find().error);
  EXPECT_EQ(held.n_ended(), 0);
}

TEST_P(MaskPoolTest, MasksOfDraftsThatWereNotChosenEnd) {
  HeldWork held;
  std::atomic<bool> is_drafting = true;
  const auto path = Path("a", [&, work = held.From(1)](std::int64_t n, WorkPace& pace) {
    return !is_drafting || work(n, pace);
  });
  path->AddDraft(NextToken(*path));
  ASSERT_TRUE(Await([&] { return held.has_been_slow(); }));
  is_drafting = false;
  path->ForgetDrafts();
  EXPECT_TRUE(Await([&] { return held.n_ended() == held.n_begun(); }));
  EXPECT_TRUE(CanAnswer(*path));
}

// Masks that follow one that is not ready have no thread.
TEST_P(MaskPoolTest, AChainHasOneThread) {
  HeldWork held;
  std::atomic<int> n_later = 0;
  const auto chains = Paths(8, "a", [&, work = held.From(0)](std::int64_t n, WorkPace& pace) {
    if (n == 0) return work(n, pace);
    ++n_later;
    return true;
  });
  // Any tokens: these have no mask yet. Not all are allowed, which is an error of their masks.
  for (const auto& path : chains) {
    for (const Token token : {5, 6, 7}) path->AddDraft(token);
  }
  EXPECT_TRUE(CanAnswer(*Path("b")));
  EXPECT_EQ(n_later, 0);
  held.Release();
  for (const auto& path : chains) {
    for (std::size_t i = 0; i <= 3; ++i) path->Find(i);
    EXPECT_FALSE(path->Find(0).error);
    EXPECT_EQ(!path->Find(1).error, path->Find(0).mask.Allows(5));
  }
}

// A path that accepts a draft drops the mask in front of it, which the draft's needs.
TEST_P(MaskPoolTest, AMaskThatAnotherNeedsGoesOn) {
  HeldWork held;
  const auto path = Path("a", held.From(0));
  path->AddDraft(5);
  path->AddDraft(6);
  ASSERT_TRUE(Await([&] { return held.has_been_slow(); }));
  path->Accept(5);
  EXPECT_TRUE(CanAnswer(*Path("b")));
  EXPECT_EQ(held.n_ended(), 0);
  held.Release();
  EXPECT_TRUE(IsReady(*path));
  EXPECT_EQ(held.n_ended(), 0);
}

// Neither a quick nor a slow place is held while a mask waits for a lock.
TEST_P(MaskPoolTest, WaitingForALockHoldsNoPlace) {
  HeldLock lock;
  HeldWork held;
  const auto quick = Paths(10, "a", lock.Waiter());
  const auto slow = Paths(4, "a", [wait = lock.Waiter()](std::int64_t n, WorkPace& pace) {
    while (Priority() != kLeastPriority) {
      if (!pace.GoesOn()) return false;
    }
    return wait(n, pace);
  });
  ASSERT_TRUE(Await([&] { return lock.n_waiting() == 14; })) << "all wait at once";
  EXPECT_TRUE(CanAnswer(*Path("a")));
  const auto other = Path("a", held.From(0));
  EXPECT_TRUE(Await([&] { return held.has_been_slow(); }));
  held.Release();
  EXPECT_TRUE(IsReady(*other));
  lock.Open();
  for (const auto* paths : {&quick, &slow}) {
    for (const auto& path : *paths) EXPECT_FALSE(path->Find().error);
  }
}

// Threads that have become slow end.
TEST_P(MaskPoolTest, SlowThreadsDoNotGather) {
  const auto n_threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto n_before = n_threads();
  for (int i = 0; i < 20; ++i) {
    HeldWork held;
    const auto heavy = Path("a", held.From(0));
    ASSERT_TRUE(Await([&] { return held.has_been_slow(); }));
    held.Release();
    ASSERT_TRUE(IsReady(*heavy));
  }
  EXPECT_TRUE(Await([&] { return n_threads() <= n_before + 3; }));
}

// Where askers compute masks, one that only seemed quick goes to a slow thread, and all of it is
// computed again; likewise one that has to wait.
class AskersMasks : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(, AskersMasks, ::testing::Bool(),
                         [](const auto& wait) { return wait.param ? "ThatWait" : "ThatCompute"; });

TEST_P(AskersMasks, GoToSlowThreads) {
  MaskPool pool(nullptr, QuickMasks::kAskers);
  ASSERT_TRUE(pool.Start());
  std::atomic<int> n_ended = 0;
  std::atomic<bool> is_released = false;
  const auto asker = std::this_thread::get_id();
  std::atomic<std::int64_t> heavy = -1;  // the first mask that the asker computes
  const Work work = [&](std::int64_t n, WorkPace& pace) {
    if (heavy < 0 && std::this_thread::get_id() == asker) heavy = n;
    if (n != heavy) return true;
    while (!is_released) {
      if (GetParam()) {
        pace.BeginWait();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        pace.EndWait();
      }
      if (pace.GoesOn()) continue;
      EXPECT_EQ(std::this_thread::get_id(), asker);
      ++n_ended;
      return false;
    }
    EXPECT_EQ(Priority(), kLeastPriority);
    return true;
  };
  ConstraintPath path(std::make_shared<FakeConstraint>(FakeConstraintOptions{
                          .seed = 3, .vocab_size = 130, .eos = kEndToken, .work = work}),
                      "a", pool);
  const auto accept = [&] {
    Token token = 0;
    while (token == kEndToken || !path.Find().mask.Allows(token)) ++token;
    path.Accept(token);
  };
  // On a busy machine some masks take a thread so long that the asker does not compute the next.
  ASSERT_TRUE(Await([&] {
    accept();
    return n_ended == 1;
  }));
  EXPECT_FALSE(path.IsReady());
  is_released = true;
  EXPECT_TRUE(IsReady(path));
  EXPECT_FALSE(path.Find().error);
  EXPECT_EQ(n_ended, 1);
}

}  // namespace
}  // namespace fathom::testing
