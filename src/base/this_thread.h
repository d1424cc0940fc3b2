// The processor time and the priority of the calling thread.
#pragma once

#include <sys/resource.h>
#include <time.h>

namespace fathom {

// Returns the seconds that the calling thread has run: on a busy machine quick work may take long.
inline double ThreadSeconds() {
  timespec now = {};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Gives the calling thread, and the threads that it starts afterwards, the least priority. It
// cannot fail, nor be taken back without rights.
inline void TakeLeastPriority() { static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19)); }

}  // namespace fathom
