// Socket: one TCP connection whose every wait has an end.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/descriptor.h"
#include "http/descriptor_wait.h"

namespace fathom {

// Owns a descriptor that does not block. One thread at a time; another may call ::shutdown on the
// descriptor while it is open, which ends every wait here.
class Socket {
 public:
  enum class Outcome {
    kBytes,
    kEnd,  // the peer sends no more, or the connection is broken
    kTooLate,
  };
  struct Received {
    Outcome outcome;
    std::size_t n_bytes = 0;
  };

  // `write_time`: how long WriteAll waits for progress. After twice that time without an
  // acknowledged byte the connection is broken, also while all that was written has found room in
  // the system's buffer: a peer that has vanished is noticed.
  Socket(Descriptor descriptor, std::chrono::milliseconds write_time);

  // False: the deadline came before there was anything to read.
  bool WaitForInput(Deadline deadline);
  // At least one byte, once there are any.
  Received ReadSome(std::span<char> out, Deadline deadline);
  // All the parts, in one call of the system if its buffer has room. False: the peer is gone, or
  // has not taken a byte for write_time. The parts are changed.
  bool WriteAll(std::span<iovec> parts);
  // Whether the peer has closed the connection, or its half of it; what it sent before does not
  // matter. One call of the system.
  bool PeerIsGone() const;
  // Ends our half, then reads and forgets what comes until the peer ends its half, the deadline
  // or so many bytes. Closing with unread bytes would reset the connection, and the peer could
  // lose an answer that it has not read yet.
  void Linger(Deadline deadline, std::size_t max_bytes);

  // For an answer that is not worth waiting for: writes what the system takes at once, and ends our
  // half. DiscardInput, some time later, forgets what has come, as Linger does.
  void WriteLast(std::string_view text);
  void DiscardInput();

  int fd() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  std::chrono::milliseconds write_time_;
};

}  // namespace fathom
