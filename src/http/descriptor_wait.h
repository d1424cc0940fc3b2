// Waiting for a descriptor, but not for ever.
#pragma once

#include <chrono>

namespace fathom {

using Deadline = std::chrono::steady_clock::time_point;

enum class Waited {
  kReady,  // or broken: the next call of the system says which
  kTooLate,
  kCancelled,
};

// Until `fd` has one of the events of poll(2), `cancel_fd` can be read, or the deadline has come;
// what is ready at that time counts. cancel_fd -1: nothing cancels.
Waited WaitFor(int fd, short events, Deadline deadline, int cancel_fd = -1);

// For poll(2) and the options of a socket: rounded up, so that nothing is asked again too early.
int WholeMilliseconds(std::chrono::nanoseconds time);

}  // namespace fathom
