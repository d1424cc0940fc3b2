#include "bench/shaped_communicator.h"

#include <algorithm>
#include <thread>

#include "base/check.h"

namespace fathom::benchmarks {
namespace {

using Clock = ShapedNetwork::Clock;

constexpr std::chrono::microseconds kTurn(30);  // between two polls

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The messages that a rank waits for, by sender: messages arrive in the order in which they were
// expected, from whichever exchange.
struct Expected {
  std::span<std::byte> bytes;
  bool* has_arrived = nullptr;
};
using Queues = std::vector<std::deque<Expected>>;

class ShapedExchange : public Exchange {
 public:
  ShapedExchange(const ShapedLink& link, ShapedNetwork& network, Queues& queues,
                 std::span<const Outgoing> outgoing, std::span<const Incoming> incoming)
      : link_(link),
        network_(network),
        queues_(queues),
        has_arrived_(std::make_unique<bool[]>(incoming.size())),
        n_incoming_(incoming.size()),
        n_outgoing_(static_cast<int>(outgoing.size())) {
    for (const Outgoing& message : outgoing) {
      network_.Send({link_.rank, message.to, link_.channel}, message.bytes, n_taken_);
    }
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      queues_[static_cast<std::size_t>(incoming[i].from)].push_back(
          {incoming[i].bytes, &has_arrived_[i]});
    }
  }

  Result<bool> Poll() override {
    for (std::size_t from = 0; from < queues_.size(); ++from) {
      std::deque<Expected>& queue = queues_[from];
      const ShapedRoute route = {static_cast<int>(from), link_.rank, link_.channel};
      while (!queue.empty() && network_.Take(route, queue.front().bytes)) {
        *queue.front().has_arrived = true;
        queue.pop_front();
      }
    }
    return n_taken_.load() == n_outgoing_ && Arrived() == n_incoming_;
  }
  Status WaitForAny() override {
    const Status waited = WaitUntil([&](bool is_done) { return is_done || Arrived() > n_told_; });
    n_told_ = Arrived();
    return waited;
  }
  Status Wait() override {
    return WaitUntil([](bool is_done) { return is_done; });
  }
  bool HasArrived(std::size_t i) const override { return has_arrived_[i]; }

 private:
  std::size_t Arrived() const {
    return static_cast<std::size_t>(
        std::count(has_arrived_.get(), has_arrived_.get() + n_incoming_, true));
  }
  template <class Condition>
  Status WaitUntil(const Condition& is_met) {
    for (;;) {
      const Result<bool> is_done = Poll();
      if (!is_done) return Unexpected(is_done.error());
      if (is_met(*is_done)) return {};
      std::this_thread::sleep_for(kTurn);
    }
  }

  ShapedLink link_;
  ShapedNetwork& network_;
  Queues& queues_;
  std::unique_ptr<bool[]> has_arrived_;
  std::size_t n_incoming_;
  int n_outgoing_;
  std::atomic<int> n_taken_ = 0;  // of them
  std::size_t n_told_ = 0;
};

// Shared by a communicator and those split from it.
struct Shared {
  Traffic traffic;
  int n_channels = 1;  // the same on all ranks, which split together
};

class ShapedCommunicator : public Communicator {
 public:
  ShapedCommunicator(const ShapedLink& link, ShapedNetwork& network, std::shared_ptr<Shared> shared)
      : link_(link),
        network_(network),
        shared_(std::move(shared)),
        queues_(static_cast<std::size_t>(network.n_ranks())) {}

  int rank() const override { return link_.rank; }
  int size() const override { return network_.n_ranks(); }
  Traffic traffic() const override { return shared_->traffic; }

  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    for (const Outgoing& message : outgoing) {
      ++shared_->traffic.n_messages;
      shared_->traffic.n_bytes += std::ssize(message.bytes);
    }
    return std::make_unique<ShapedExchange>(link_, network_, queues_, outgoing, incoming);
  }
  Result<std::unique_ptr<Communicator>> Split(int color, int key) override {
    Check(color == 0 && key == link_.rank, "a shaped network is split into all ranks only");
    return std::make_unique<ShapedCommunicator>(ShapedLink{link_.rank, shared_->n_channels++},
                                                network_, shared_);
  }

 private:
  ShapedLink link_;
  ShapedNetwork& network_;
  std::shared_ptr<Shared> shared_;
  Queues queues_;
};

}  // namespace

ShapedNetwork::ShapedNetwork(int n_ranks)
    : out_free_(static_cast<std::size_t>(n_ranks)), in_free_(static_cast<std::size_t>(n_ranks)) {}

void ShapedNetwork::Send(const ShapedRoute& route, std::span<const std::byte> bytes,
                         std::atomic<int>& n_taken) {
  const std::scoped_lock lock(mutex_);
  Clock::time_point& out = out_free_[static_cast<std::size_t>(route.from)];
  Clock::time_point& in = in_free_[static_cast<std::size_t>(route.to)];
  const Clock::duration time = Seconds(static_cast<double>(bytes.size()) / shape_.bytes_per_second);
  out = std::max(Clock::now(), out) + time;
  in = std::max(out + Seconds(shape_.latency_seconds), in + time);
  on_their_way_[route].push_back({in, bytes, &n_taken});
}

bool ShapedNetwork::Take(const ShapedRoute& route, std::span<std::byte> bytes) {
  Message message;
  {
    const std::scoped_lock lock(mutex_);
    std::deque<Message>& queue = on_their_way_[route];
    if (queue.empty() || queue.front().arrives > Clock::now()) {
      return false;
    }
    message = queue.front();
    queue.pop_front();
  }
  Check(message.bytes.size() == bytes.size(), "as many bytes as were sent");
  std::copy(message.bytes.begin(), message.bytes.end(), bytes.begin());
  message.n_taken->fetch_add(1);
  return true;
}

std::unique_ptr<Communicator> MakeShapedCommunicator(int rank, ShapedNetwork& network) {
  return std::make_unique<ShapedCommunicator>(ShapedLink{rank, 0}, network,
                                              std::make_shared<Shared>());
}

}  // namespace fathom::benchmarks
