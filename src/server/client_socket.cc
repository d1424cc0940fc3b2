#include "server/client_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <system_error>

#include "base/check.h"

namespace fathom {
namespace {

std::string Describe(int error) { return std::generic_category().message(error); }

// Milliseconds from now, rounded up: a poll that ends early would be asked again at once.
int MillisecondsUntil(ClientSocket::Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - ClientSocket::Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ClientSocket::ClientSocket() : cancel_descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

ClientSocket::~ClientSocket() {
  Close();
  if (cancel_descriptor_ >= 0) ::close(cancel_descriptor_);
}

void ClientSocket::Cancel() {
  const std::uint64_t one = 1;
  // It fails only where the counter is full, and then it has been cancelled before.
  [[maybe_unused]] const ssize_t written = ::write(cancel_descriptor_, &one, sizeof(one));
}

void ClientSocket::Close() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

Status ClientSocket::WaitFor(short events, Clock::time_point deadline) const {
  std::array<pollfd, 2> watched = {
      pollfd{.fd = descriptor_, .events = events, .revents = 0},
      pollfd{.fd = cancel_descriptor_, .events = POLLIN, .revents = 0}};
  for (;;) {
    const int n_ready = ::poll(watched.data(), watched.size(), MillisecondsUntil(deadline));
    if (n_ready < 0 && errno == EINTR) continue;
    if (n_ready < 0) return MakeError(ErrorCode::kIo, "cannot wait: {}", Describe(errno));
    if (watched[1].revents != 0) return MakeError(ErrorCode::kUnavailable, "cancelled");
    if (n_ready > 0) return {};
    if (Clock::now() >= deadline) return MakeError(ErrorCode::kIo, "timed out");
  }
}

Status ClientSocket::ConnectTo(const addrinfo& address, Clock::time_point deadline) {
  descriptor_ = ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         address.ai_protocol);
  if (descriptor_ < 0) return MakeError(ErrorCode::kIo, "no socket: {}", Describe(errno));
  // Requests are written whole, so waiting to fill a packet can only delay them.
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(descriptor_, address.ai_addr, address.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS && errno != EINTR) {
    return MakeError(ErrorCode::kIo, "cannot connect: {}", Describe(errno));
  }
  const Status ready = WaitFor(POLLOUT, deadline);
  if (!ready) return MakeError(ready.error().code, "cannot connect: {}", ready.error().message);
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return MakeError(ErrorCode::kIo, "cannot connect: {}", Describe(error));
  return {};
}

Status ClientSocket::Connect(const std::string& host, int port, Clock::time_point deadline) {
  Close();
  if (cancel_descriptor_ < 0) return MakeError(ErrorCode::kIo, "no descriptor is left");
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

Status ClientSocket::SendAll(std::string_view bytes, Clock::time_point deadline) {
  Check(is_open(), "sending over a socket that is not open");
  while (!bytes.empty()) {
    const Status ready = WaitFor(POLLOUT, deadline);
    if (!ready) return ready;
    const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && WouldBlock(errno)) continue;
    if (n < 0) return MakeError(ErrorCode::kIo, "cannot send: {}", Describe(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::size_t> ClientSocket::Receive(std::span<char> bytes, Clock::time_point deadline) {
  Check(is_open(), "receiving over a socket that is not open");
  for (;;) {
    const Status ready = WaitFor(POLLIN, deadline);
    if (!ready) return Unexpected(ready.error());
    const ssize_t n = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (!WouldBlock(errno)) {
      return MakeError(ErrorCode::kIo, "cannot receive: {}", Describe(errno));
    }
  }
}

bool ClientSocket::IsStale() const {
  char byte = 0;
  return ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || !WouldBlock(errno);
}

}  // namespace fathom
