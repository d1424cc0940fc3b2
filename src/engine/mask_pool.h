// MaskPool: threads that compute the masks of constrained sequences while the model runs
// (docs/spec/constrained.md 3.4, 3.6).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "constraint/constraint.h"
#include "engine/metrics.h"

namespace fathom {

// The mask behind some tokens of an answer: a function of constraint and tokens, so
// that no answer depends on when a mask is ready.
struct FoundMask {
  ConstraintState state;
  TokenMask mask;
  bool can_end = false;        // the answer may end here
  std::optional<Error> error;  // then nothing else is valid
};

// A mask that a pool was asked for. Shared by the pool and whoever needs the mask.
class PendingMask {
 public:
  // Behind `token`, which follows `before`; without `before`, at the beginning.
  PendingMask(std::shared_ptr<const Constraint> constraint,
              std::shared_ptr<const PendingMask> before, Token token)
      : constraint_(std::move(constraint)), before_(std::move(before)), token_(token) {}

  // Any thread.
  bool IsReady() const { return ready_.load(std::memory_order_acquire); }
  // Requires IsReady.
  const FoundMask& found() const { return found_; }

 private:
  friend class MaskPool;
  Status Compute();

  const std::shared_ptr<const Constraint> constraint_;
  std::shared_ptr<const PendingMask> before_;  // until the mask is ready
  const Token token_;
  FoundMask found_;
  double seconds_ = 0;    // processor time of the sequence's masks, of the last ones most
  bool is_slow_ = false;  // for the thread of slow masks
  std::atomic<bool> ready_ = false;
};

// The thread that computes a mask which the masks before it let seem quick.
enum class QuickMasks {
  kThreads,  // the threads of the pool
  kAskers,   // the caller of Ask: the model leaves no processor to the threads
};

// Masks are computed in the order in which they are asked for, but those of sequences whose masks
// take long by a thread of their own, whose priority is the least: the model and the other
// sequences go on beside them. Thread-safe, except that Ask must follow an Ask for what is before.
class MaskPool {
 public:
  // Has no threads before Start; until then Ask computes at once. `metrics` may be null.
  explicit MaskPool(EngineMetrics* metrics, QuickMasks quick = QuickMasks::kThreads)
      : metrics_(metrics), quick_(quick) {}
  ~MaskPool();

  // Starts the threads, unless they run. They inherit the processors of the caller. Error: the
  // system has no more threads.
  Status Start();

  // Asks for a mask that has not been asked for. May compute it, if it should be quick.
  void Ask(std::shared_ptr<PendingMask> mask);
  // Waits until the mask is ready; false: the deadline has passed before.
  bool WaitUntil(const PendingMask& mask, std::chrono::steady_clock::time_point deadline);
  void Wait(const PendingMask& mask);
  // Drops this share, by another thread while masks are computed: destroying a state of a
  // constraint may wait for a mask of the same grammar.
  void Drop(std::shared_ptr<const PendingMask> mask);
  // Has another thread drop this share, which may have much to destroy.
  void Drop(std::shared_ptr<const Constraint> constraint);

 private:
  using Queue = std::deque<std::shared_ptr<PendingMask>>;
  static bool IsSlow(const PendingMask* before);
  bool IsForAsker(const PendingMask* before) const;
  void DropLater(std::shared_ptr<const void> share);
  void Run(Queue& queue);
  void Compute(PendingMask& mask);

  EngineMetrics* const metrics_;
  const QuickMasks quick_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::condition_variable ready_;
  Queue queue_;                                       // guarded
  Queue slow_queue_;                                  // guarded
  int n_unfinished_ = 0;                              // guarded: masks that threads were given
  double average_seconds_ = 0;                        // guarded: of the last masks
  std::vector<std::shared_ptr<const void>> dropped_;  // guarded
  bool ends_ = false;                                 // guarded
  bool has_threads_ = false;                          // guarded
  std::vector<std::jthread> threads_;                 // guarded
};

}  // namespace fathom
