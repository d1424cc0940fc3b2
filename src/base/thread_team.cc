#include "base/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/check.h"

namespace fathom {
namespace {

// About 20 microseconds: longer than the serial code between two operations of a decoding step,
// shorter than anything a competing process would notice.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns once `value` differs from `old`: spins for a while, then sleeps in the kernel.
template <class T>
void WaitWhileEqual(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) {
      return;
    }
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads) : n_threads_(n_threads) {
  Check(n_threads >= 1, "a team has at least one thread");
  for (int i = 1; i < n_threads; ++i) {
    threads_.emplace_back([this] { WorkerLoop(); });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadTeam::Run(std::int64_t count, std::int64_t grain, Task task) {
  if (count <= 0) {
    return;
  }
  if (n_threads_ == 1 || count <= grain) {
    task.call(task.context, 0, count);
    return;
  }
  task_ = task;
  count_ = count;
  grain_ = std::max<std::int64_t>(grain, 1);
  unfinished_.store(n_threads_, std::memory_order_relaxed);
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  claims_.store(std::uint64_t{generation} << 32, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  RunShares(generation);
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    WaitWhileEqual(unfinished_, left);
  }
}

// Claims and runs shares of this loop until none is left. Does nothing if the loop is over.
void ThreadTeam::RunShares(std::uint32_t generation) {
  std::uint64_t claims = claims_.load(std::memory_order_acquire);
  while (claims >> 32 == generation) {
    const auto share = static_cast<std::uint32_t>(claims);
    if (share >= static_cast<std::uint32_t>(n_threads_)) {
      return;
    }
    if (claims_.compare_exchange_weak(claims, claims + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      RunShare(static_cast<int>(share));
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        unfinished_.notify_one();
      }
      claims = claims_.load(std::memory_order_acquire);
    }
  }
}

// A share is a contiguous piece of whole grains: weights are read as few long streams.
void ThreadTeam::RunShare(int index) {
  const std::int64_t grains = (count_ + grain_ - 1) / grain_;
  const std::int64_t begin = grains * index / n_threads_ * grain_;
  const std::int64_t end = std::min(grains * (index + 1) / n_threads_ * grain_, count_);
  if (begin < end) {
    task_.call(task_.context, begin, end);
  }
}

void ThreadTeam::WorkerLoop() {
  std::uint32_t seen = 0;
  while (true) {
    WaitWhileEqual(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) {
      return;
    }
    RunShares(seen);
  }
}

int AvailableProcessors() {
  int processors = 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    processors = std::max(1, CPU_COUNT(&set));
  }
  // Control group version 2: "quota period" in microseconds, or "max period".
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0) {
    const double limit = std::strtod(quota.c_str(), nullptr) / period;
    processors = std::clamp(static_cast<int>(std::ceil(limit)), 1, processors);
  }
  return processors;
}

}  // namespace fathom
