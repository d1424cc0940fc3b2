#include "http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace fathom::http {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return MakeError(ErrorCode::kNotFound, "cannot listen on host '{}': {}", host,
                     error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  }
  return Addresses(found, &::freeaddrinfo);
}

// The port has the same offset in both families.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

void SetPort(sockaddr_storage& address, int port) {
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<std::uint16_t>(port));
}

sockaddr_storage ReadAddress(const Descriptor& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

int ReadPort(const Descriptor& socket) {
  const sockaddr_storage address = ReadAddress(socket);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool IsLoopback(const Descriptor& socket) {
  const sockaddr_storage address = ReadAddress(socket);
  if (address.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  const in_addr_t host = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  return (host >> 24) == IN_LOOPBACKNET;
}

bool IsAnyAddress(const addrinfo& address) {
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

// Returns none, with errno set, if the system refuses.
Descriptor OpenSocket(const addrinfo& address, int port) {
  Descriptor opened(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (opened.get() < 0) return {};
  const int yes = 1;
  ::setsockopt(opened.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // "::" accepts IPv4 too if the system allows it; a name has its own IPv4 addresses.
  if (address.ai_family == AF_INET6 && !IsAnyAddress(address)) {
    ::setsockopt(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  sockaddr_storage copy = {};
  std::memcpy(&copy, address.ai_addr, address.ai_addrlen);
  SetPort(copy, port);
  if (::bind(opened.get(), reinterpret_cast<sockaddr*>(&copy), address.ai_addrlen) != 0 ||
      ::listen(opened.get(), SOMAXCONN) != 0) {
    const int error = errno;
    opened.Close();
    errno = error;
    return {};
  }
  return opened;
}

// A name may have addresses of a family that this system does not support.
bool IsAbsentFamily(int error) { return error == EAFNOSUPPORT || error == EADDRNOTAVAIL; }

struct Opened {
  std::vector<Descriptor> sockets;
  int error = 0;  // error for the address that could not be opened
};

Opened OpenAll(const addrinfo* addresses, int port) {
  Opened opened;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    Descriptor listening = OpenSocket(*address, port);
    if (listening.get() >= 0) {
      if (port == 0) port = ReadPort(listening);
      opened.sockets.push_back(std::move(listening));
      continue;
    }
    opened.error = errno;
    if (!IsAbsentFamily(opened.error)) {
      opened.sockets.clear();
      break;
    }
  }
  return opened;
}

std::string PeerName(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> name = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, name.data(),
                    static_cast<socklen_t>(name.size()), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return name.data();
}

bool IsExhausted(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<Listener> Listener::Open(const std::string& host, int port) {
  if (port < 0 || port > 65535) {
    return MakeError(ErrorCode::kInvalidArgument, "expected a port from 0 to 65535, found {}",
                     port);
  }
  const Result<Addresses> addresses = Resolve(host);
  if (!addresses) return Unexpected(addresses.error());
  // A free port of the first address may be in use at the second: then another port is tried.
  constexpr int kAttempts = 8;
  Opened opened;
  for (int i = 0; i < kAttempts && opened.sockets.empty(); ++i) {
    opened = OpenAll(addresses->get(), port);
    if (port != 0 || opened.error != EADDRINUSE) break;
  }
  if (opened.sockets.empty()) {
    return MakeError(ErrorCode::kIo, "cannot listen on host '{}', port {}: {}", host, port,
                     std::strerror(opened.error));
  }
  Listener listener;
  listener.sockets_ = std::move(opened.sockets);
  listener.port_ = ReadPort(listener.sockets_.front());
  listener.is_loopback_ =
      std::all_of(listener.sockets_.begin(), listener.sockets_.end(), IsLoopback);
  listener.wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (listener.wake_.get() < 0) {
    return MakeError(ErrorCode::kIo, "cannot listen on host '{}', port {}: {}", host, port,
                     std::strerror(errno));
  }
  return listener;
}

std::optional<Listener::Arrival> Listener::Accept(int milliseconds) {
  std::vector<pollfd> entries = {{.fd = wake_.get(), .events = POLLIN}};
  for (const Descriptor& listening : sockets_) {
    entries.push_back({.fd = listening.get(), .events = POLLIN});
  }
  if (::poll(entries.data(), entries.size(), milliseconds) <= 0) return std::nullopt;
  if (entries[0].revents != 0) {
    is_awake_ = true;
    return std::nullopt;
  }
  for (const pollfd& entry : entries) {
    if (entry.revents == 0) continue;
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    Descriptor accepted(::accept4(entry.fd, reinterpret_cast<sockaddr*>(&address), &size,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.get() >= 0) return Arrival{std::move(accepted), PeerName(address, size)};
    // Any other error concerns only that one connection.
    if (IsExhausted(errno)) return Arrival{.is_exhausted = true};
  }
  return std::nullopt;
}

void Listener::Wake() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof(one)));
}

}  // namespace fathom::http
