#include "base/fair_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/this_thread.h"

namespace fathom {
namespace {

using ::testing::ElementsAre;

TEST(FairQueue, OwnersTakeTurns) {
  FairQueue<int> queue;
  for (int i = 0; i < 4; ++i) queue.Add("a", queue.NewTicket(), i);
  queue.Add("b", queue.NewTicket(), 10);
  queue.Add("c", queue.NewTicket(), 20);
  std::vector<int> taken;
  while (const std::optional<int> next = queue.Take()) taken.push_back(*next);
  EXPECT_THAT(taken, ElementsAre(0, 10, 20, 1, 2, 3));
  EXPECT_TRUE(queue.IsEmpty());
}

TEST(FairQueue, WhoHasFewestIsNext) {
  FairQueue<int> queue;
  queue.Borrow("a");
  queue.Borrow("a");
  queue.Borrow("b");
  for (int i = 0; i < 3; ++i) {
    queue.Add("a", queue.NewTicket(), i);
    queue.Add("b", queue.NewTicket(), 10 + i);
  }
  EXPECT_TRUE(queue.HasFavoured("a"));
  EXPECT_FALSE(queue.HasFavoured("b"));
  EXPECT_EQ(queue.Take(), 10);
  EXPECT_FALSE(queue.HasFavoured("a"));
  EXPECT_EQ(queue.Take(2), std::nullopt);
  queue.GiveBack("a");
  EXPECT_EQ(queue.Take(2), 0);
  EXPECT_EQ(queue.size(), 4u);
}

TEST(FairQueue, AnOwnersItemsKeepTheirTickets) {
  FairQueue<int> queue;
  const auto first = queue.NewTicket();
  queue.Add("a", queue.NewTicket(), 2);
  queue.Add("a", first, 1);
  const auto gone = queue.NewTicket();
  queue.Add("a", gone, 3);
  queue.Remove("a", gone);
  EXPECT_EQ(queue.Take(), 1);
  EXPECT_EQ(queue.Take(), 2);
  EXPECT_EQ(queue.Take(), std::nullopt);
}

// --- FairTurns ---

// A little more than a slice: the clocks of threads and of the system differ.
constexpr double kSlice = 1.1 * FairTurn::kSliceSeconds;

void Burn(double seconds) {
  const double begin = ThreadSeconds();
  while (ThreadSeconds() - begin < seconds) {
  }
}

// Threads that enter in a known order, and what they have written in turn.
class Entering {
 public:
  explicit Entering(FairTurns& turns) : turns_(turns) {}
  ~Entering() { Join(); }
  void Join() { threads_.clear(); }

  // Returns once the turn of the new thread waits for a place.
  void Start(const std::string& owner, const std::function<void(FairTurn&)>& work,
             const StopFunction& stop = {}) {
    const int n_before = turns_.n_waiting();
    threads_.emplace_back([this, owner, work, stop] {
      FairTurn turn(turns_, owner);
      if (turn.Enter(stop)) work(turn);
    });
    while (turns_.n_waiting() == n_before) std::this_thread::yield();
  }
  // Starts one that writes its name.
  void StartWriter(const std::string& owner, const std::string& name) {
    Start(owner, [this, name](FairTurn&) { Write(name); });
  }
  void Write(const std::string& name) {
    const std::lock_guard lock(mutex_);
    written_.push_back(name);
  }
  const std::vector<std::string>& written() const { return written_; }  // joined

 private:
  FairTurns& turns_;
  std::mutex mutex_;
  std::vector<std::string> written_;
  std::vector<std::jthread> threads_;
};

TEST(FairTurns, OneOfManyOwnersIsNext) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "a");
  ASSERT_TRUE(first.Enter({}));
  for (int i = 0; i < 60; ++i) entering.StartWriter("a", "a");
  entering.StartWriter("b", "b");
  first.Leave();
  entering.Join();
  ASSERT_EQ(entering.written().size(), 61u);
  EXPECT_EQ(entering.written().front(), "b");
}

TEST(FairTurns, AnOwnersTurnsKeepTheirOrder) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "c");
  ASSERT_TRUE(first.Enter({}));
  for (const char* name : {"a1", "a2", "a3"}) entering.StartWriter("a", name);
  for (const char* name : {"b1", "b2", "b3"}) entering.StartWriter("b", name);
  first.Leave();
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("a1", "b1", "a2", "b2", "a3", "b3"));
}

TEST(FairTurns, PlacesAreDividedEqually) {
  FairTurns turns({.places = 2});
  Entering entering(turns);
  FairTurn first(turns, "a");
  FairTurn second(turns, "a");
  ASSERT_TRUE(first.Enter({}) && second.Enter({}));
  for (const char* name : {"a3", "a4"}) entering.StartWriter("a", name);
  entering.StartWriter("b", "b");
  second.Leave();  // to b, since a still has one; then b's goes to a
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("b", "a3", "a4"));
}

// A slice ends only for another owner, and then the turn waits for its next one.
TEST(FairTurns, SlicesAlternate) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "c");
  ASSERT_TRUE(first.Enter({}));
  const auto work = [&](const std::string& name) {
    return [&entering, name](FairTurn& turn) {
      for (int slice = 0; slice < 3; ++slice) {
        entering.Write(name);
        Burn(kSlice);
        ASSERT_TRUE(turn.GoOn({}));
      }
    };
  };
  entering.Start("a", work("a1"));
  entering.Start("a", work("a2"));
  entering.Start("b", work("b"));
  Burn(kSlice);
  ASSERT_TRUE(first.GoOn({}));  // after one slice of each of a and b, or more
  first.Leave();
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("a1", "b", "a1", "b", "a1", "b", "a2", "a2", "a2"));
}

TEST(FairTurns, NoSliceEndsForTheOwnersOwnWork) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "a");
  ASSERT_TRUE(first.Enter({}));
  entering.StartWriter("a", "later");
  Burn(kSlice);
  ASSERT_TRUE(first.GoOn({}));
  entering.Write("first");
  first.Leave();
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("first", "later"));
}

// Work that has given its place up goes on before other work of its owner begins.
TEST(FairTurns, BegunWorkGoesFirst) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "a");
  ASSERT_TRUE(first.Enter({}));
  entering.StartWriter("a", "later");
  entering.Start("b", [&](FairTurn&) { entering.Write("b"); });
  Burn(kSlice);
  ASSERT_TRUE(first.GoOn({}));
  entering.Write("first");
  first.Leave();
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("b", "first", "later"));
}

TEST(FairTurns, AnOwnerHasALimit) {
  FairTurns turns({.per_owner = 2});
  FairTurn first(turns, "a");
  FairTurn second(turns, "a");
  FairTurn other(turns, "b");
  EXPECT_TRUE(first.Enter({}) && second.Enter({}) && other.Enter({}));
  FairTurn third(turns, "a");
  EXPECT_FALSE(third.Enter([] { return true; }));
  second.Leave();
  EXPECT_TRUE(third.Enter([] { return true; }));
}

TEST(FairTurns, AStoppedTurnLeavesTheQueue) {
  FairTurns turns({.places = 1});
  Entering entering(turns);
  FairTurn first(turns, "a");
  ASSERT_TRUE(first.Enter({}));
  std::atomic<bool> is_stopped = false;
  entering.Start(
      "b", [&](FairTurn&) { entering.Write("stopped"); }, [&] { return is_stopped.load(); });
  entering.StartWriter("c", "c");
  is_stopped = true;
  while (turns.n_waiting() == 2) std::this_thread::yield();
  first.Leave();
  entering.Join();
  EXPECT_THAT(entering.written(), ElementsAre("c"));
  EXPECT_TRUE(first.Enter({}));  // the place has come back
}

}  // namespace
}  // namespace fathom
