#include "bench/tcp_mesh.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

namespace fathom::benchmarks {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(20);
constexpr int kTries = 500;

// Disables delays of small messages; both ends wait for them.
Descriptor WithoutDelay(Descriptor socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

Result<sockaddr_in> MakeAddress(const std::string& address, int port) {
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) {
    return MakeError(ErrorCode::kInvalidArgument, "expected an IPv4 address, found {}", address);
  }
  return place;
}

Result<Descriptor> Listen(const sockaddr_in& place) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return MakeError(ErrorCode::kIo, "cannot listen: {}", std::system_category().message(errno));
  }
  return socket;
}

// Connects, and sends the own rank.
Result<Descriptor> Connect(const sockaddr_in& place, std::int32_t rank) {
  for (int i = 0; i < kTries; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place)) == 0 &&
        ::send(socket.get(), &rank, sizeof(rank), MSG_NOSIGNAL) == sizeof(rank)) {
      return WithoutDelay(std::move(socket));
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return MakeError(ErrorCode::kIo, "cannot connect: {}", std::system_category().message(errno));
}

}  // namespace

Result<MeshEnds> JoinTcpMesh(int rank, std::span<const std::string> addresses, int port) {
  std::vector<sockaddr_in> places;
  for (const std::string& address : addresses) {
    Result<sockaddr_in> place = MakeAddress(address, port);
    if (!place) return Unexpected(place.error());
    places.push_back(*place);
  }
  MeshEnds ends(places.size());
  Result<Descriptor> listener = Listen(places[static_cast<std::size_t>(rank)]);
  if (!listener) return Unexpected(listener.error());
  for (int other = 0; other < rank; ++other) {
    Result<Descriptor> socket = Connect(places[static_cast<std::size_t>(other)], rank);
    if (!socket) return Unexpected(socket.error());
    ends[static_cast<std::size_t>(other)] = *std::move(socket);
  }
  for (std::size_t n = static_cast<std::size_t>(rank) + 1; n < ends.size(); ++n) {
    Descriptor socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::int32_t other = 0;
    if (::recv(socket.get(), &other, sizeof(other), MSG_WAITALL) != sizeof(other) ||
        other <= rank || other >= static_cast<std::int32_t>(ends.size())) {
      return MakeError(ErrorCode::kIo, "expected a rank of the {}, found {}", ends.size(), other);
    }
    ends[static_cast<std::size_t>(other)] = WithoutDelay(std::move(socket));
  }
  return ends;
}

}  // namespace fathom::benchmarks
