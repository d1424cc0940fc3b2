// ThreadTeam: a fixed set of threads that run one loop together; the only place that knows about
// data parallelism.
//
// libraries.md suggests OpenMP behind one function. We use our own hundred lines instead: GCC's
// OpenMP runtime is invisible to ThreadSanitizer (every barrier is reported as a race), and its
// spinning barrier cannot be bounded from inside a library.
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
// A range is cut into one contiguous share per thread, because memory is read fastest as few long
// streams. Each thread takes its share from the front, piece by piece; who has none left takes
// pieces from the end of the share with most left. So a thread that the machine does not let run
// keeps the others waiting for one piece at most, not for its share.
class ThreadTeam {
 public:
  // n_threads >= 1. With 1 no thread is started and For is a plain loop. `processors`: empty, or
  // the numbers of n_threads processors; worker i is bound to the i-th, the caller of For (worker
  // 0) binds itself (processors.h).
  explicit ThreadTeam(int n_threads, std::span<const int> processors = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(begin, end) or body(begin, end, worker) on disjoint pieces that cover [0, count),
  // each a multiple of `grain` long except the last; returns when all are done. A thread may be
  // given many pieces; `worker`, 0 to n_threads - 1, is the same for all of them and another one
  // for every other thread. Runs inline if count <= grain. body must not throw; results must not
  // depend on how the range is cut.
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
  // Grains of a share that nobody has taken: the first in the lower half, the end in the upper one.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left = 0;
  };

  // How long one thread spins before it sleeps. Long while waits are short: that is a team with the
  // processors to itself. Where another process has them, waits take milliseconds; spinning then
  // takes time from that process and, by way of it, from the thread waited for.
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
  // Written by the caller of For before the shares, read by who has taken a piece of one. Until
  // that piece is done For does not return, so they cannot change meanwhile.
  Task task_;
  std::int64_t count_ = 0;
  std::int64_t grain_ = 1;
  std::atomic<bool> running_ = false;
  Patience patience_;  // of the caller of For
  std::vector<Share> shares_;
  // One more for every loop: what idle threads wait for.
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;
  alignas(64) std::atomic<std::uint32_t> unfinished_ = 0;  // grains
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fathom
