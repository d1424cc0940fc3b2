// ShapedNetwork: ranks of one process whose messages take as long as on a given network.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace fathom::bench {

// Every rank has a port that sends and receives at the same time, at this rate each.
struct LinkShape {
  double bytes_per_second = 1e9;
  double latency_seconds = 0;
};

// Where a rank is in the network, and by what its messages are told from those of others.
struct ShapedLink {
  int rank = 0;
  int channel = 0;
};
struct ShapedRoute {
  int from = 0;
  int to = 0;
  int channel = 0;
  friend auto operator<=>(const ShapedRoute&, const ShapedRoute&) = default;
};

// Messages of a rank leave one after the other, and enter the port of another one after the other,
// the latency later, whatever the ranks do meanwhile. Ranks call it from any thread.
class ShapedNetwork {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ShapedNetwork(int n_ranks);
  // For messages that are sent from now on.
  void SetShape(const LinkShape& shape) {
    const std::scoped_lock lock(mutex_);
    shape_ = shape;
  }
  int n_ranks() const { return static_cast<int>(out_free_.size()); }

  // The bytes are read when they are taken, which is told then.
  void Send(const ShapedRoute& route, std::span<const std::byte> bytes, std::atomic<int>& n_taken);
  // Takes the next message of a route if it has arrived.
  bool Take(const ShapedRoute& route, std::span<std::byte> bytes);

 private:
  struct Message {
    Clock::time_point arrives;
    std::span<const std::byte> bytes;
    std::atomic<int>* n_taken = nullptr;
  };

  std::mutex mutex_;
  LinkShape shape_;
  std::vector<Clock::time_point> out_free_;  // when the ports will be free
  std::vector<Clock::time_point> in_free_;
  std::map<ShapedRoute, std::deque<Message>> on_their_way_;
};

// The network outlives it. It is split into all ranks only.
std::unique_ptr<Communicator> MakeShapedCommunicator(int rank, ShapedNetwork& network);

}  // namespace fathom::bench
