// Measures the processor time and lowers the priority of the calling thread.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <chrono>

namespace fathom {

// Returns the processor seconds of the calling thread: on a busy machine, quick work may take long.
inline double ThreadSeconds() {
  timespec now = {};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Measures the processor time of a thread from its construction on. Only for that thread.
class ThreadWatch {
 public:
  double seconds() const { return ThreadSeconds() - begin_; }
  // Returns true if the thread has run for that time. Calls the system only if at least that much
  // time has passed at all.
  bool HasRun(double seconds_run) const {
    const std::chrono::duration<double> passed = Clock::now() - wall_begin_;
    return passed.count() >= seconds_run && seconds() >= seconds_run;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point wall_begin_ = Clock::now();
  double begin_ = ThreadSeconds();
};

// Gives the calling thread, and the threads that it starts afterwards, the least priority. Cannot
// fail, and cannot be undone without privileges.
inline void TakeLeastPriority() { static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19)); }

}  // namespace fathom
