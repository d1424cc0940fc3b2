#include "comm/rank_controls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAddressTime(1000);
constexpr std::chrono::seconds kAllTime(10);

// The address of rank 0, and the word that a rank sends first, since others may know the port too.
struct Place {
  std::array<in_addr_t, 8> addresses = {};
  std::int32_t n_addresses = 0;
  in_port_t port = 0;
  std::array<std::byte, 16> secret = {};
};
struct Greeting {
  std::array<std::byte, 16> secret = {};
  std::int32_t rank = 0;
};

sockaddr_in AddressOf(in_addr_t address, in_port_t port) {
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = port;
  place.sin_addr.s_addr = address;
  return place;
}

// Finds this machine's addresses; loopback addresses, which other machines cannot reach, come last.
void FindAddresses(Place& place) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  const auto add = [&](bool loopback) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      const bool fits = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_UP) != 0 &&
                        ((one->ifa_flags & IFF_LOOPBACK) != 0) == loopback;
      if (fits && place.n_addresses < std::ssize(place.addresses)) {
        sockaddr_in address = {};
        std::memcpy(&address, one->ifa_addr, sizeof(address));
        place.addresses[static_cast<std::size_t>(place.n_addresses++)] = address.sin_addr.s_addr;
      }
    }
  };
  add(false);
  add(true);
  ::freeifaddrs(list);
}

// Waits until the socket can be read or written.
bool WaitFor(int socket, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  pollfd watched = {socket, events, 0};
  return left.count() > 0 && ::poll(&watched, 1, static_cast<int>(left.count())) == 1;
}

std::optional<Descriptor> Listen(Place& place) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any = AddressOf(htonl(INADDR_ANY), 0);
  socklen_t size = sizeof(any);
  if (socket.get() < 0 || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0 ||
      ::getentropy(place.secret.data(), place.secret.size()) != 0) {
    return std::nullopt;
  }
  place.port = any.sin_port;
  FindAddresses(place);
  return socket;
}

Descriptor Connect(const Place& place, int rank) {
  for (std::int32_t i = 0; i < place.n_addresses; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in to = AddressOf(place.addresses[static_cast<std::size_t>(i)], place.port);
    ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
    int error = 0;
    socklen_t size = sizeof(error);
    const Greeting greeting = {place.secret, rank};
    if (WaitFor(socket.get(), POLLOUT, Clock::now() + kAddressTime) &&
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
        ::send(socket.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting)) {
      return socket;
    }
  }
  return Descriptor();
}

// Accepts the ranks that connect in time; the sockets of the others stay empty.
std::vector<Descriptor> Accept(int listener, const Place& place, int n_ranks) {
  std::vector<Descriptor> controls(static_cast<std::size_t>(n_ranks - 1));
  const auto deadline = Clock::now() + kAllTime;
  for (int n_missing = n_ranks - 1; n_missing > 0 && WaitFor(listener, POLLIN, deadline);) {
    Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    Greeting greeting;
    if (socket.get() < 0 || !WaitFor(socket.get(), POLLIN, Clock::now() + kAddressTime) ||
        ::recv(socket.get(), &greeting, sizeof(greeting), MSG_DONTWAIT) != sizeof(greeting) ||
        greeting.secret != place.secret || greeting.rank < 1 || greeting.rank >= n_ranks) {
      continue;
    }
    Descriptor& control = controls[static_cast<std::size_t>(greeting.rank - 1)];
    n_missing -= control.get() < 0 ? 1 : 0;
    control = std::move(socket);
  }
  return controls;
}

}  // namespace

Result<std::vector<Descriptor>> ConnectControls(Communicator& all) {
  Place place;
  std::optional<Descriptor> listener;
  if (all.rank() == 0) {
    listener = Listen(place);
  }
  if (Status told = all.Broadcast(0, std::as_writable_bytes(std::span(&place, 1))); !told) {
    return Unexpected(told.error());
  }
  std::vector<Descriptor> controls;
  if (listener) {
    controls = Accept(listener->get(), place, all.size());
  } else if (all.rank() != 0) {
    controls.push_back(Connect(place, all.rank()));
  }
  // If one rank has no connection, no rank keeps one.
  std::int8_t is_missing = all.rank() == 0 && !listener ? 1 : 0;
  for (const Descriptor& control : controls) {
    is_missing = control.get() < 0 ? 1 : is_missing;
  }
  const Result<std::vector<std::int8_t>> missing = all.GatherEach(is_missing);
  if (!missing) return Unexpected(missing.error());
  for (std::size_t rank = missing->size(); rank-- > 0;) {
    if ((*missing)[rank] != 0) {
      return MakeError(ErrorCode::kUnsupported, "rank {} has no connection over TCP to {}", rank,
                       rank == 0 ? "all others" : "rank 0");
    }
  }
  return controls;
}

}  // namespace fathom
