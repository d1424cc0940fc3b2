// Waiting for a descriptor, with a deadline.
#pragma once

#include <chrono>

namespace fathom {

using Deadline = std::chrono::steady_clock::time_point;

enum class Waited {
  kReady,  // or broken: the next system call returns the error
  kTooLate,
  kCancelled,
};

// Waits until `fd` has one of the events of poll(2), `cancel_fd` can be read, or the deadline has
// come; an event at the deadline counts. cancel_fd -1: the wait cannot be cancelled.
Waited WaitFor(int fd, short events, Deadline deadline, int cancel_fd = -1);

// Converts for poll(2) and socket options, rounded up so that a wait never ends too early.
int WholeMilliseconds(std::chrono::nanoseconds time);

}  // namespace fathom
