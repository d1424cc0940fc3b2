// ThreadTeam: a fixed set of threads that run one loop together; the only place that knows about
// data parallelism.
//
// libraries.md suggests OpenMP behind one function. We use our own eighty lines instead: GCC's
// OpenMP runtime is invisible to ThreadSanitizer (every barrier is reported as a race), and its
// spinning barrier cannot be bounded from inside a library.
#ifndef FATHOM_BASE_THREAD_TEAM_H_
#define FATHOM_BASE_THREAD_TEAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace fathom {

// Owns n_threads - 1 threads; the caller of For is the last one. For may be called from one thread
// at a time and must not be nested. Idle threads spin briefly, then sleep.
//
// A range is cut into one share per thread, and a thread that is free claims the next share. On a
// busy machine, where a thread may not be scheduled for milliseconds, the others do its share.
class ThreadTeam {
 public:
  // n_threads >= 1. With 1 no thread is started and For is a plain loop.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls body(begin, end) on disjoint pieces that cover [0, count), each a multiple of `grain`
  // long except the last; returns when all are done. Runs inline if count <= grain. body must not
  // throw; results must not depend on how the range is cut.
  template <class Body>
  void For(std::int64_t count, std::int64_t grain, const Body& body) {
    Run(count, grain,
        {[](const void* context, std::int64_t begin, std::int64_t end) {
           (*static_cast<const Body*>(context))(begin, end);
         },
         &body});
  }

 private:
  struct Task {
    void (*call)(const void* context, std::int64_t begin, std::int64_t end) = nullptr;
    const void* context = nullptr;
  };

  void Run(std::int64_t count, std::int64_t grain, Task task);
  void RunShares(std::uint32_t generation);
  void RunShare(int index);
  void WorkerLoop();

  const int n_threads_;
  // Written by the caller of For before `claims_`, read by who has claimed a share. Until that
  // share is done For does not return, so they cannot change meanwhile.
  Task task_;
  std::int64_t count_ = 0;
  std::int64_t grain_ = 1;
  // One more for every loop: what idle threads wait for.
  alignas(64) std::atomic<std::uint32_t> generation_ = 0;
  // The loop's generation in the upper half, its next unclaimed share in the lower.
  alignas(64) std::atomic<std::uint64_t> claims_ = 0;
  alignas(64) std::atomic<int> unfinished_ = 0;  // shares
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// Processors this process may use: its affinity mask, at most the CPU quota of its control group.
int AvailableProcessors();

}  // namespace fathom

#endif  // FATHOM_BASE_THREAD_TEAM_H_
