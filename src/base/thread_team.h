// ThreadTeam: a fixed set of threads that run one loop together; the only data parallelism.
//
// The alternative was OpenMP, wrapped in one function. We use our own hundred lines instead: GCC's
// OpenMP runtime is invisible to ThreadSanitizer (every barrier is reported as a race), and its
// spinning barrier cannot be limited from inside a library.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace fathom {

// Owns n_threads - 1 threads; the caller of For is the last one. For may be called from one thread
// at a time and must not be nested. Idle threads spin briefly, then sleep.
//
// A range is divided into one contiguous share per thread, because memory is read fastest as few
// long streams. Each thread takes pieces from the front of its share; when the share is empty, it
// takes pieces from the end of the largest remaining share. A thread that the system does not run
// thus delays the others by one piece at most, not by its share.
class ThreadTeam {
 public:
  // n_threads >= 1. With 1 no thread is started and For is a plain loop. `processors`: empty, or
  // the numbers of n_threads processors; worker i is bound to the i-th, and the caller of For
  // (worker 0) binds itself (processors.h).
  explicit ThreadTeam(int n_threads, std::span<const int> processors = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(begin, end) or body(begin, end, worker) on disjoint pieces that cover [0, count),
  // each a multiple of `grain` long except the last; returns when all are done. A thread may run
  // many pieces; `worker`, 0 to n_threads - 1, identifies the thread. Runs inline if count <=
  // grain. body must not throw; results must not depend on how the range is divided.
  template <class Body>
  void For(std::int64_t count, std::int64_t grain, const Body& body) {
    Run(count, grain,
        {[](const void* context, std::int64_t begin, std::int64_t end,
            [[maybe_unused]] int worker) {
           const Body& call = *static_cast<const Body*>(context);
           if constexpr (std::is_invocable_v<const Body&, std::int64_t, std::int64_t, int>) {
             call(begin, end, worker);
           } else {
             call(begin, end);
           }
         },
         &body});
  }

 private:
  struct Task {
    void (*call)(const void* context, std::int64_t begin, std::int64_t end, int worker) = nullptr;
    const void* context = nullptr;
  };
  // The remaining grains of a share: the first in the lower half, the end in the upper half.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left = 0;
  };

  // Decides how long one thread spins before it sleeps. It spins long while waits are short: the
  // team then has the processors to itself. If another process uses them, waits take milliseconds,
  // and spinning takes time from that process and so from the awaited thread.
  class Patience {
   public:
    // Returns once `value` differs from `old`.
    void WaitWhileEqual(const std::atomic<std::uint32_t>& value, std::uint32_t old);

   private:
    int n_spins_ = 1000;
  };

  void Run(std::int64_t count, std::int64_t grain, Task task);
  void RunPieces(int worker);
  Share* FullestShare();
  void WorkerLoop(int worker);

  const int n_threads_;
  // Written by the caller of For before the shares, read by threads that have taken a piece. For
  // returns after the last piece, so the task does not change while a thread reads it.
  Task task_;
  std::int64_t count_ = 0;
  std::int64_t grain_ = 1;
  std::atomic<bool> running_ = false;
  Patience patience_;  // for the caller of For
  std::vector<Share> shares_;
  // Incremented for every loop: idle threads wait for a change.
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;
  alignas(64) std::atomic<std::uint32_t> unfinished_ = 0;  // grains
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fathom
