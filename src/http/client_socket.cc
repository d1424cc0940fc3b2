#include "http/client_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <system_error>

#include "base/check.h"

namespace fathom {
namespace {

std::string Describe(int error) { return std::generic_category().message(error); }

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ClientSocket::ClientSocket() : cancel_descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void ClientSocket::Cancel() {
  const std::uint64_t one = 1;
  // It fails only where the counter is full, and then it has been cancelled before.
  [[maybe_unused]] const ssize_t written = ::write(cancel_descriptor_.get(), &one, sizeof(one));
}

Status ClientSocket::WaitUntil(short events, Deadline deadline) const {
  switch (WaitFor(descriptor_.get(), events, deadline, cancel_descriptor_.get())) {
    case Waited::kReady:
      return {};
    case Waited::kTooLate:
      return MakeError(ErrorCode::kIo, "timed out");
    case Waited::kCancelled:
      return MakeError(ErrorCode::kUnavailable, "cancelled");
  }
  return {};
}

Status ClientSocket::ConnectTo(const addrinfo& address, Deadline deadline) {
  descriptor_ = Descriptor(::socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (!is_open()) return MakeError(ErrorCode::kIo, "no socket: {}", Describe(errno));
  // Requests are written whole, so waiting to fill a packet can only delay them.
  const int on = 1;
  ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(descriptor_.get(), address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS && errno != EINTR) {
    return MakeError(ErrorCode::kIo, "cannot connect: {}", Describe(errno));
  }
  const Status ready = WaitUntil(POLLOUT, deadline);
  if (!ready) return MakeError(ready.error().code, "cannot connect: {}", ready.error().message);
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(descriptor_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return MakeError(ErrorCode::kIo, "cannot connect: {}", Describe(error));
  return {};
}

Status ClientSocket::Connect(const std::string& host, int port, Deadline deadline) {
  Close();
  if (cancel_descriptor_.get() < 0) return MakeError(ErrorCode::kIo, "no descriptor is left");
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (failed != 0) {
    return MakeError(ErrorCode::kIo, "cannot find the host: {}", ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Status connected = MakeError(ErrorCode::kIo, "the host has no address");
  for (const addrinfo* one = found; one != nullptr && !connected; one = one->ai_next) {
    connected = ConnectTo(*one, deadline);
    if (!connected) Close();
  }
  return connected;
}

Status ClientSocket::SendAll(std::string_view bytes, Deadline deadline) {
  Check(is_open(), "sending over a socket that is not open");
  while (!bytes.empty()) {
    const Status ready = WaitUntil(POLLOUT, deadline);
    if (!ready) return ready;
    const ssize_t n = ::send(descriptor_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && WouldBlock(errno)) continue;
    if (n < 0) return MakeError(ErrorCode::kIo, "cannot send: {}", Describe(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::size_t> ClientSocket::Receive(std::span<char> bytes, Deadline deadline) {
  Check(is_open(), "receiving over a socket that is not open");
  for (;;) {
    const Status ready = WaitUntil(POLLIN, deadline);
    if (!ready) return Unexpected(ready.error());
    const ssize_t n = ::recv(descriptor_.get(), bytes.data(), bytes.size(), 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (!WouldBlock(errno)) {
      return MakeError(ErrorCode::kIo, "cannot receive: {}", Describe(errno));
    }
  }
}

bool ClientSocket::IsStale() const {
  char byte = 0;
  return ::recv(descriptor_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !WouldBlock(errno);
}

}  // namespace fathom
