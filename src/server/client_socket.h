// ClientSocket: a TCP connection whose every wait has an end.
#ifndef FATHOM_SERVER_CLIENT_SOCKET_H_
#define FATHOM_SERVER_CLIENT_SOCKET_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct addrinfo;  // <netdb.h>

namespace fathom {

// One thread, but for Cancel. Errors are kIo, or kUnavailable after Cancel; their messages say what
// happened, not to whom.
class ClientSocket {
 public:
  using Clock = std::chrono::steady_clock;

  ClientSocket();
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  // Tries the addresses of the host one after the other. Looking up a name that is not in the
  // hosts file is the system's, and takes the time it takes there.
  Status Connect(const std::string& host, int port, Clock::time_point deadline);
  Status SendAll(std::string_view bytes, Clock::time_point deadline);
  // As many bytes as there are, at least one; 0: the peer has closed its half.
  Result<std::size_t> Receive(std::span<char> bytes, Clock::time_point deadline);

  bool is_open() const { return descriptor_ >= 0; }
  // Whether nothing can be asked over it any more: the peer has closed it, or said something that
  // nobody asked for.
  bool IsStale() const;
  void Close();

  // Any thread, at any time: what waits now or later fails at once.
  void Cancel();

 private:
  Status WaitFor(short events, Clock::time_point deadline) const;
  Status ConnectTo(const addrinfo& address, Clock::time_point deadline);

  int descriptor_ = -1;
  const int cancel_descriptor_;  // an eventfd that can be read once Cancel was called
};

}  // namespace fathom

#endif  // FATHOM_SERVER_CLIENT_SOCKET_H_
