// FairTurns: a few places for long work, which several owners take in turn.
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
// turn. So an owner with one piece of work waits for one slice of the others, whatever they have
// waiting; and work that has begun goes on before other work of its owner begins. Any thread. Must
// outlive its turns.
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
  // All require the mutex.
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

// The turn of one piece of work, which has a place or not. The thread that does the work only.
class FairTurn {
 public:
  // Processor time of a thread after which its place goes to another owner that waits.
  static constexpr double kSliceSeconds = 0.02;

  // Has no place yet.
  FairTurn(FairTurns& turns, std::string owner) : turns_(turns), owner_(std::move(owner)) {}
  ~FairTurn() { Leave(); }
  FairTurn(const FairTurn&) = delete;
  FairTurn& operator=(const FairTurn&) = delete;

  // Waits for a place, unless the turn has one. False: `stop`, asked ten times a second, returned
  // true before; then the turn has no place.
  bool Enter(const StopFunction& stop);
  // As Enter; a turn whose slice has passed gives its place to another owner first, if one with
  // fewer places waits. Call often: about every 50 microseconds.
  bool GoOn(const StopFunction& stop);
  // Gives the place back, if the turn has one.
  void Leave();
  bool has_place() const { return has_place_; }

 private:
  friend class FairTurns;
  bool WaitForPlace(std::unique_lock<std::mutex>& lock, const StopFunction& stop);

  FairTurns& turns_;
  const std::string owner_;
  FairQueue<FairTurn*>::Ticket ticket_ = 0;  // 0: has not waited yet
  bool has_place_ = false;                   // as the thread of the turn knows
  bool is_given_ = false;                    // guarded by the mutex of the turns
  std::condition_variable given_;
  ThreadWatch slice_;  // of the thread that has entered
};

}  // namespace fathom
