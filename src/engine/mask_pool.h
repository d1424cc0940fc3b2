// MaskPool: threads that compute the masks of constrained sequences while the model runs
// (docs/spec/constrained.md 3.4, 3.6).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/fair_queue.h"
#include "base/fair_turns.h"
#include "base/result.h"
#include "engine/metrics.h"
#include "engine/pending_mask.h"
#include "engine/share_dropper.h"

namespace fathom::engine {

// Names the thread that computes a mask expected to be quick from the masks before it.
enum class QuickMasks {
  kThreads,  // the threads of the pool
  kAskers,   // the caller of Ask: the model leaves no processor to the threads
};

// Owners take turns, so that no client's masks wait for more than a few masks of each other client.
// Every mask begins on one of a few quick threads, unless the earlier masks of its sequence took
// long. A mask that has run for 4 ms is slow: its thread takes the least priority and gives its
// place to another quick thread. From then on it needs one of two slow places, which the owners
// share (FairTurns). A thread that waits for a lock of a constraint holds no place. So at most one
// thread works for each sequence, and none while its next mask awaits the one before.
//
// Any thread, except that a call of Ask must follow the Ask for the mask before.
class MaskPool {
 public:
  // Has no threads before Start; until then Ask computes the mask itself. `metrics` may be null.
  explicit MaskPool(EngineMetrics* metrics, QuickMasks quick = QuickMasks::kThreads)
      : metrics_(metrics), quick_(quick) {}
  // Stops the work on masks.
  ~MaskPool();

  // Starts the threads, unless they run. They inherit the processors of the caller. Error: the
  // system has no more threads.
  Status Start();

  // Requests the mask after `token`, which follows `before`; without `before`, the mask at the
  // beginning. May compute the mask in this call if it should be quick.
  std::shared_ptr<const AskedMask> Ask(std::shared_ptr<const MaskSource> source,
                                       const AskedMask* before, Token token);
  // Waits until the mask is ready. Returns false if the deadline passes first.
  bool WaitUntil(const AskedMask& mask, std::chrono::steady_clock::time_point deadline);
  void Wait(const AskedMask& mask);
  // Drops this share on another thread, as it may have much to destroy.
  void Drop(std::shared_ptr<const void> share) { dropper_.Drop(std::move(share)); }

 private:
  friend class AskedMask;
  class Pace;
  class AskersPace;
  using Threads = std::list<std::jthread>;
  static constexpr int kSlowPlaces = 2;

  // --- Masks ---
  bool IsForAsker(const PendingMask* before) const;
  std::condition_variable* Hand(std::shared_ptr<PendingMask> mask);
  std::condition_variable* Enqueue(std::shared_ptr<PendingMask> mask, bool is_slow);
  void ComputeAtOnce(std::shared_ptr<PendingMask> mask, bool is_limited);
  void ComputeOnThread(std::shared_ptr<PendingMask> mask, Pace& pace);
  double Compute(PendingMask& mask, WorkPace* pace);
  void Publish(PendingMask& mask, double thread_seconds);
  bool IsNeeded(const PendingMask& mask);
  static bool HasUser(const PendingMask& mask);
  void DropMask(std::shared_ptr<PendingMask> mask);

  // --- Threads ---
  Status StartThread(void (MaskPool::*run)());
  void EndThread(Threads::iterator self);
  Status StartQuick();
  void StartSlow();
  bool NeedsSlowThread() const { return std::ssize(slow_masks_) > n_idle_slow_; }
  void RunQuick();
  void RunSlow();
  void ServeSlow(std::unique_lock<std::mutex>& lock);

  // --- For Pace ---
  bool MoveToSlow(const PendingMask& mask);
  void LeaveQuick(const PendingMask& mask);
  void ReturnToQuick(const PendingMask& mask);

  EngineMetrics* const metrics_;
  const QuickMasks quick_;
  FairTurns slow_places_{{.places = kSlowPlaces}};
  std::mutex mutex_;
  std::condition_variable asked_;       // wakes quick threads
  std::condition_variable slow_asked_;  // wakes slow threads
  std::condition_variable ready_;
  // Guarded by the mutex.
  FairQueue<std::shared_ptr<PendingMask>> quick_masks_;  // taken: by quick threads
  std::deque<std::shared_ptr<PendingMask>> slow_masks_;  // each for a slow thread of its own
  std::size_t n_unfinished_ = 0;                         // masks that threads were given
  double average_seconds_ = 0;                           // average of the last masks
  bool has_threads_ = false;
  int most_quick_ = 0;
  int n_quick_ = 0;  // quick threads that wait for no lock
  int n_idle_quick_ = 0;
  int n_idle_slow_ = 0;             // slow threads that look for a mask
  std::atomic<bool> ends_ = false;  // written with the lock
  Threads threads_;
  ShareDropper dropper_;  // destroyed first: it joins threads that have ended
};

}  // namespace fathom::engine
