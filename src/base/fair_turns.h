// FairTurns: a few places for long work, which owners take in turn.
#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>

#include "base/fair_queue.h"
#include "base/stop_check.h"
#include "base/this_thread.h"

namespace fathom {

class FairTurn;

// A place that becomes free goes to the owner with the fewest places (FairQueue), and to its oldest
// turn. So an owner with one piece of work waits for one slice of each other owner, however much
// work these have waiting; and work that has begun continues before other work of its owner begins.
// Any thread. Must outlive its turns.
class FairTurns {
 public:
  struct Limits {
    int places = std::numeric_limits<int>::max();
    int per_owner = std::numeric_limits<int>::max();
  };
  explicit FairTurns(const Limits& limits) : per_owner_(limits.per_owner), n_free_(limits.places) {}

  // Returns the number of turns that wait for a place.
  int n_waiting() const { return n_waiting_.load(std::memory_order_relaxed); }

 private:
  friend class FairTurn;
  // All of these require the mutex.
  void Add(FairTurn& turn);
  void Remove(FairTurn& turn);
  void GiveBack(FairTurn& turn);
  void GiveOut();  // gives free places to turns that wait

  const int per_owner_;
  std::mutex mutex_;
  int n_free_;                    // guarded
  FairQueue<FairTurn*> waiting_;  // guarded
  std::atomic<int> n_waiting_ = 0;
};

// The turn of one piece of work, with or without a place. Only for the thread that does the work.
class FairTurn {
 public:
  // Processor time of a thread after which its place goes to another waiting owner.
  static constexpr double kSliceSeconds = 0.02;

  // Creates a turn without a place.
  FairTurn(FairTurns& turns, std::string owner) : turns_(turns), owner_(std::move(owner)) {}
  ~FairTurn() { Leave(); }
  FairTurn(const FairTurn&) = delete;
  FairTurn& operator=(const FairTurn&) = delete;

  // Waits for a place, unless the turn has one. Returns false, without a place, if `stop`, which is
  // called ten times a second, returns true first.
  bool Enter(const StopFunction& stop);
  // Like Enter. If the slice has passed and another owner with fewer places waits, first gives the
  // place to that owner. Call it often: about every 50 microseconds.
  bool GoOn(const StopFunction& stop);
  // Returns the place, if the turn has one.
  void Leave();
  bool has_place() const { return has_place_; }

 private:
  friend class FairTurns;
  bool WaitForPlace(std::unique_lock<std::mutex>& lock, const StopFunction& stop);

  FairTurns& turns_;
  const std::string owner_;
  FairQueue<FairTurn*>::Ticket ticket_ = 0;  // 0: has not waited yet
  bool has_place_ = false;                   // as the thread of the turn sees it
  bool is_given_ = false;                    // guarded by the mutex of the turns
  std::condition_variable given_;
  ThreadWatch slice_;  // measures the thread since it entered
};

}  // namespace fathom
