// ShapedNetwork: ranks of one process whose messages take the time of a given network.
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

namespace fathom::benchmarks {

// Every rank has a port that sends and receives at the same time, each at this rate.
struct LinkShape {
  double bytes_per_second = 1e9;
  double latency_seconds = 0;
};

// The position of a rank in the network, and the channel of its messages.
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

// Messages of a rank leave one after the other and, after the latency, enter the port of the
// receiver one after the other, independently of the ranks' work. Ranks call it from any thread.
class ShapedNetwork {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ShapedNetwork(int n_ranks);
  // Applies to messages that are sent afterwards.
  void SetShape(const LinkShape& shape) {
    const std::scoped_lock lock(mutex_);
    shape_ = shape;
  }
  int n_ranks() const { return static_cast<int>(out_free_.size()); }

  // Reads the bytes when the message is taken, and then counts it as taken.
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

// The network outlives the communicator, which can be split into all ranks only.
std::unique_ptr<Communicator> MakeShapedCommunicator(int rank, ShapedNetwork& network);

}  // namespace fathom::benchmarks
