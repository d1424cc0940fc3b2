// The processor time and the priority of the calling thread.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <chrono>

namespace fathom {

// Returns the seconds that the calling thread has run: on a busy machine quick work may take long.
inline double ThreadSeconds() {
  timespec now = {};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Measures how long a thread runs, from its construction. That thread only.
class ThreadWatch {
 public:
  double seconds() const { return ThreadSeconds() - begin_; }
  // True if the thread has run so long. Asks the system only if so much time has passed at all.
  bool HasRun(double seconds_run) const {
    const std::chrono::duration<double> passed = Clock::now() - wall_begin_;
    return passed.count() >= seconds_run && seconds() >= seconds_run;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point wall_begin_ = Clock::now();
  double begin_ = ThreadSeconds();
};

// Gives the calling thread, and the threads that it starts afterwards, the least priority. It
// cannot fail, nor be taken back without rights.
inline void TakeLeastPriority() { static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19)); }

}  // namespace fathom
