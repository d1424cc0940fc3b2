#include "http/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace fathom::http {
namespace {

using std::chrono::milliseconds;

void SetOption(int fd, int level, int name, int value) {
  // A system without the option works, too, but less well.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }

// Converts for poll(2) and socket options, rounded up so that a wait never ends too early.
int WholeMilliseconds(std::chrono::nanoseconds time) {
  const auto rounded = std::chrono::ceil<milliseconds>(time).count();
  return static_cast<int>(std::clamp<milliseconds::rep>(rounded, 0, 1 << 30));
}

// Waits until `fd` has one of the events of poll(2), or is broken; then the next system call
// returns the error. Returns false at the deadline, unless there is an event.
bool WaitFor(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd watched = {.fd = fd, .events = events, .revents = 0};
    const auto left = deadline - std::chrono::steady_clock::now();
    const int n_ready = ::poll(&watched, 1, WholeMilliseconds(left));
    const bool has_failed = n_ready < 0 && errno != EINTR;
    if (n_ready > 0) return true;
    // Checked after an error, too, so that repeated attempts end.
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (has_failed) return true;
  }
}

// Returns the parts without their first n_bytes.
std::span<iovec> Behind(std::span<iovec> parts, std::size_t n_bytes) {
  while (!parts.empty() && n_bytes >= parts.front().iov_len) {
    n_bytes -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (n_bytes > 0) {
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + n_bytes;
    parts.front().iov_len -= n_bytes;
  }
  return parts;
}

}  // namespace

Socket::Socket(Descriptor descriptor, milliseconds write_time)
    : descriptor_(std::move(descriptor)), write_time_(write_time) {
  SetOption(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  // By default the system would use megabytes for each client that does not read. Text needs
  // little, and an unread response should soon pause its request.
  constexpr int kSendBytes = 64 << 10;
  SetOption(fd(), SOL_SOCKET, SO_SNDBUF, kSendBytes);
  // The system measures from the last acknowledged byte, WriteAll from the beginning of a wait.
  // Twice the time leaves a waiting write its full time.
  SetOption(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, WholeMilliseconds(2 * write_time));
}

bool Socket::WaitForInput(Deadline deadline) { return WaitFor(fd(), POLLIN, deadline); }

Socket::Received Socket::ReadSome(std::span<char> out, Deadline deadline) {
  for (;;) {
    // Checked even if there are bytes: a peer that never makes the server wait can still be too
    // late.
    if (std::chrono::steady_clock::now() >= deadline) return {Outcome::kTooLate};
    const ssize_t n_bytes = ::recv(fd(), out.data(), out.size(), 0);
    if (n_bytes > 0) return {Outcome::kBytes, static_cast<std::size_t>(n_bytes)};
    if (n_bytes == 0) return {Outcome::kEnd};
    if (errno == EINTR) continue;
    if (!WouldBlock()) return {Outcome::kEnd};
    if (!WaitForInput(deadline)) return {Outcome::kTooLate};
  }
}

bool Socket::WriteAll(std::span<iovec> parts, WriteWait& wait) {
  bool has_waited = false;
  parts = Behind(parts, 0);
  while (!parts.empty()) {
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n_bytes = ::sendmsg(fd(), &message, MSG_NOSIGNAL);
    if (n_bytes >= 0) {
      has_waited = false;
      parts = Behind(parts, static_cast<std::size_t>(n_bytes));
    } else if (WouldBlock()) {
      if (has_waited) return false;
      // A socket counts as writable once a third of its buffer is free; a slow peer may have made
      // progress without that. So only the result of another attempt matters, not the result of the
      // wait.
      has_waited = !WaitForRoom(wait);
      if (!wait.is_allowed) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// The writer announces its wait before it checks whether it may wait; ForbidWait forbids waits
// before it checks whether there is one. So at least one of them sees the other.
bool Socket::WaitForRoom(WriteWait& wait) const {
  wait.is_waiting = true;
  const bool has_room =
      wait.is_allowed && WaitFor(fd(), POLLOUT, std::chrono::steady_clock::now() + write_time_);
  wait.is_waiting = false;
  return has_room;
}

void Socket::ForbidWait(WriteWait& wait) const {
  wait.is_allowed = false;
  if (wait.is_waiting) ::shutdown(fd(), SHUT_RDWR);
}

bool Socket::PeerIsGone() const {
  pollfd entry = {.fd = fd(), .events = POLLRDHUP};
  return ::poll(&entry, 1, 0) > 0;
}

void Socket::Linger(Deadline deadline, std::size_t max_bytes) {
  if (::shutdown(fd(), SHUT_WR) != 0) return;
  std::array<char, 4096> sink;
  for (std::size_t n_bytes = 0; n_bytes < max_bytes;) {
    const Received received = ReadSome(sink, deadline);
    if (received.outcome != Outcome::kBytes) return;
    n_bytes += received.n_bytes;
  }
}

void Socket::WriteLast(std::string_view text) {
  static_cast<void>(::send(fd(), text.data(), text.size(), MSG_NOSIGNAL));
  ::shutdown(fd(), SHUT_WR);
}

void Socket::DiscardInput() {
  constexpr int kMostReads = 16;
  std::array<char, 4096> sink;
  for (int i = 0; i < kMostReads; ++i) {
    if (::recv(fd(), sink.data(), sink.size(), 0) <= 0) return;
  }
}

}  // namespace fathom::http
