// Socket: one TCP connection with a deadline for every wait.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/descriptor.h"

namespace fathom::http {

using Deadline = std::chrono::steady_clock::time_point;

// Lets another thread end the wait of a write: Socket::ForbidWait.
struct WriteWait {
  std::atomic<bool> is_allowed = true;
  std::atomic<bool> is_waiting = false;
};

// Owns a non-blocking descriptor. One thread at a time; another thread may call ::shutdown on the
// descriptor while it is open, which ends every wait here.
class Socket {
 public:
  enum class Outcome {
    kBytes,
    kEnd,  // the peer sends no more data, or the connection is broken
    kTooLate,
  };
  struct Received {
    Outcome outcome;
    std::size_t n_bytes = 0;
  };

  // `write_time`: the time for which WriteAll waits for progress. After twice that time without an
  // acknowledged byte the connection is broken, even if all written bytes fit into the system's
  // buffer, so a vanished peer is noticed.
  Socket(Descriptor descriptor, std::chrono::milliseconds write_time);

  // Returns false if the deadline comes before any input.
  bool WaitForInput(Deadline deadline);
  // Reads at least one byte, as soon as one is available.
  Received ReadSome(std::span<char> out, Deadline deadline);
  // Writes all parts, in one system call if its buffer has room. Returns false if the peer has
  // left, or has not taken a byte for write_time, or if the write would have to wait and may not.
  // Changes the parts.
  bool WriteAll(std::span<iovec> parts, WriteWait& wait);
  // Any thread, while the socket is open. From now on, no write with this `wait` waits. If one is
  // waiting, the connection is shut down.
  void ForbidWait(WriteWait& wait) const;
  // Returns whether the peer has closed the connection, or its half of it, whatever it sent before.
  // Costs one system call.
  bool PeerIsGone() const;
  // Ends our half, then discards input until the peer ends its half, the deadline or max_bytes.
  // Closing a socket with unread bytes would reset the connection, and the peer could lose an
  // answer that it has not read yet.
  void Linger(Deadline deadline, std::size_t max_bytes);

  // Writes an answer without waiting: only as much as the system accepts; then ends our half.
  // DiscardInput, called some time later, discards the input like Linger.
  void WriteLast(std::string_view text);
  void DiscardInput();

  int fd() const { return descriptor_.get(); }

 private:
  bool WaitForRoom(WriteWait& wait) const;

  Descriptor descriptor_;
  std::chrono::milliseconds write_time_;
};

}  // namespace fathom::http
