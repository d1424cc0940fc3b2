#include "http/descriptor_wait.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace fathom {

int WholeMilliseconds(std::chrono::nanoseconds time) {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(rounded, 0, 1 << 30));
}

Waited WaitFor(int fd, short events, Deadline deadline, int cancel_fd) {
  for (;;) {
    // poll ignores descriptors below 0.
    std::array<pollfd, 2> watched = {pollfd{.fd = fd, .events = events, .revents = 0},
                                     pollfd{.fd = cancel_fd, .events = POLLIN, .revents = 0}};
    const auto left = deadline - std::chrono::steady_clock::now();
    const int n_ready = ::poll(watched.data(), watched.size(), WholeMilliseconds(left));
    const bool has_failed = n_ready < 0 && errno != EINTR;
    if (n_ready > 0) return watched[1].revents != 0 ? Waited::kCancelled : Waited::kReady;
    // Checked after an error too: repeated attempts come to an end.
    if (std::chrono::steady_clock::now() >= deadline) return Waited::kTooLate;
    if (has_failed) return Waited::kReady;
  }
}

}  // namespace fathom
