#include "comm/rank_controls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace fathom::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAddressTime(1000);
constexpr std::chrono::seconds kAllTime(10);
// The most connections beyond one per rank that may be open before they have sent the secret.
constexpr std::size_t kMostStrangers = 256;

// The machine of a rank, as far as its network goes: zeros if unknown.
struct Machine {
  std::array<char, 40> boot_id = {};          // boot id of the running kernel
  std::array<std::uint64_t, 2> network = {};  // the network namespace

  bool operator==(const Machine&) const = default;
};

// The address of rank 0, and the secret that a rank sends first, since other processes may know the
// port too.
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

sockaddr_in MakeAddress(in_addr_t address, in_port_t port) {
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = port;
  place.sin_addr.s_addr = address;
  return place;
}

Machine ThisMachine() {
  Machine machine;
  const Descriptor boot_id(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  struct stat network = {};
  if (boot_id.get() < 0 || ::stat("/proc/self/ns/net", &network) != 0 ||
      ::read(boot_id.get(), machine.boot_id.data(), machine.boot_id.size()) <= 0) {
    return {};
  }
  machine.network = {network.st_dev, network.st_ino};
  return machine;
}

// Finds the addresses at which all ranks reach this machine. Loopback addresses, which other
// machines cannot reach, come last; among ranks of one machine no other address is needed.
void FindAddresses(Place& place, bool is_one_machine) {
  if (is_one_machine) {
    place.addresses[0] = htonl(INADDR_LOOPBACK);
    place.n_addresses = 1;
    return;
  }
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

// With several machines, listens at all addresses: MPI does not say which of them it uses.
std::optional<Descriptor> Listen(Place& place, bool is_one_machine) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = MakeAddress(htonl(is_one_machine ? INADDR_LOOPBACK : INADDR_ANY), 0);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (socket.get() < 0 || ::bind(socket.get(), plain, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), plain, &size) != 0 ||
      ::getentropy(place.secret.data(), place.secret.size()) != 0) {
    return std::nullopt;
  }
  place.port = address.sin_port;
  FindAddresses(place, is_one_machine);
  return socket;
}

Descriptor Connect(const Place& place, int rank) {
  for (std::int32_t i = 0; i < place.n_addresses; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in to = MakeAddress(place.addresses[static_cast<std::size_t>(i)], place.port);
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

// A connection to rank 0 that has not yet sent the secret.
class Newcomer {
 public:
  explicit Newcomer(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // Reads the bytes that have arrived. False: no more will arrive.
  bool Read() {
    const std::span rest = std::as_writable_bytes(std::span(&greeting_, 1)).subspan(n_read_);
    const ssize_t n_read = ::recv(fd(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (n_read > 0) n_read_ += static_cast<std::size_t>(n_read);
    return !is_whole() && (n_read > 0 || (n_read < 0 && (errno == EAGAIN || errno == EINTR))) &&
           Clock::now() < until_;
  }
  bool is_whole() const { return n_read_ == sizeof(greeting_); }
  const Greeting& greeting() const { return greeting_; }
  Descriptor TakeSocket() { return std::move(socket_); }

 private:
  Descriptor socket_;
  Greeting greeting_;
  std::size_t n_read_ = 0;
  Clock::time_point until_ = Clock::now() + kAddressTime;
};

// Accepts the connections of the other ranks on rank 0. Strangers may connect too: rank 0 waits for
// all newcomers in parallel, for a limited time, and ignores the strangers.
class Reception {
 public:
  Reception(int listener, const Place& place, int n_ranks)
      : listener_(listener), place_(place), controls_(static_cast<std::size_t>(n_ranks - 1)) {}

  // Accepts the ranks that connect in time; the sockets of the other ranks stay empty.
  std::vector<Descriptor> AcceptAll() && {
    const auto deadline = Clock::now() + kAllTime;
    while (n_accepted_ < controls_.size() && Clock::now() < deadline) {
      WaitForAny();
      AcceptNewcomers();
      for (std::size_t i = newcomers_.size(); i-- > 0;) {
        if (newcomers_[i].Read()) continue;
        if (newcomers_[i].is_whole()) Admit(newcomers_[i]);
        newcomers_.erase(newcomers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return std::move(controls_);
  }

 private:
  void WaitForAny() const {
    constexpr milliseconds kLongestWait(20);
    std::vector<pollfd> watched = {{listener_, POLLIN, 0}};
    for (const Newcomer& newcomer : newcomers_) watched.push_back({newcomer.fd(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), static_cast<int>(kLongestWait.count()));
  }

  // Drops the newcomer that has been silent for longest if there are too many newcomers or no
  // descriptors are left.
  void AcceptNewcomers() {
    for (;;) {
      Descriptor socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      const bool is_full = newcomers_.size() >= controls_.size() + kMostStrangers;
      const bool is_exhausted = socket.get() < 0 && (errno == EMFILE || errno == ENFILE);
      if ((is_full || is_exhausted) && !newcomers_.empty()) newcomers_.erase(newcomers_.begin());
      if (socket.get() < 0) return;
      newcomers_.emplace_back(std::move(socket));
      if (is_full) return;  // read them before dropping more
    }
  }

  void Admit(Newcomer& newcomer) {
    const auto rank = static_cast<std::size_t>(newcomer.greeting().rank);
    if (newcomer.greeting().secret != place_.secret || rank < 1 || rank > controls_.size()) return;
    Descriptor& control = controls_[rank - 1];
    n_accepted_ += control.get() < 0 ? 1 : 0;
    control = newcomer.TakeSocket();
  }

  const int listener_;
  const Place& place_;
  std::vector<Descriptor> controls_;
  std::size_t n_accepted_ = 0;
  std::vector<Newcomer> newcomers_;  // the oldest first
};

Result<bool> AreOneMachine(Communicator& all) {
  const Result<std::vector<Machine>> machines = all.GatherEach(ThisMachine());
  if (!machines) return Unexpected(machines.error());
  const Machine& first = machines->front();
  return first != Machine() &&
         std::all_of(machines->begin(), machines->end(),
                     [&](const Machine& machine) { return machine == first; });
}

}  // namespace

Result<std::vector<Descriptor>> ConnectControls(Communicator& all) {
  const Result<bool> is_one_machine = AreOneMachine(all);
  if (!is_one_machine) return Unexpected(is_one_machine.error());
  Place place;
  std::optional<Descriptor> listener;
  if (all.rank() == 0) {
    listener = Listen(place, *is_one_machine);
  }
  if (Status told = all.Broadcast(0, std::as_writable_bytes(std::span(&place, 1))); !told) {
    return Unexpected(told.error());
  }
  std::vector<Descriptor> controls;
  if (listener) {
    controls = Reception(listener->get(), place, all.size()).AcceptAll();
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

}  // namespace fathom::comm
