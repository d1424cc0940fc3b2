// ClientSocket: a TCP connection whose every wait has an end.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "http/descriptor_wait.h"

struct addrinfo;  // <netdb.h>

namespace fathom {

// One thread, but for Cancel. Errors are kIo, or kUnavailable after Cancel; their messages say what
// happened, not to whom.
class ClientSocket {
 public:
  ClientSocket();

  // Tries the addresses of the host one after the other. Looking up a name that is not in the
  // hosts file is the system's, and takes the time it takes there.
  Status Connect(const std::string& host, int port, Deadline deadline);
  Status SendAll(std::string_view bytes, Deadline deadline);
  // As many bytes as there are, at least one; 0: the peer has closed its half.
  Result<std::size_t> Receive(std::span<char> bytes, Deadline deadline);

  bool is_open() const { return descriptor_.get() >= 0; }
  // Whether nothing can be asked over it any more: the peer has closed it, or said something that
  // nobody asked for.
  bool IsStale() const;
  void Close() { descriptor_.Close(); }

  // Any thread, at any time: what waits now or later fails at once.
  void Cancel();

 private:
  Status WaitUntil(short events, Deadline deadline) const;
  Status ConnectTo(const addrinfo& address, Deadline deadline);

  Descriptor descriptor_;
  const Descriptor cancel_descriptor_;  // an eventfd that can be read once Cancel was called
};

}  // namespace fathom
