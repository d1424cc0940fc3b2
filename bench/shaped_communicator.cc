#include "bench/shaped_communicator.h"

#include <algorithm>
#include <thread>

#include "base/check.h"

namespace fathom::bench {
namespace {

using Clock = ShapedNetwork::Clock;

constexpr std::chrono::microseconds kTurn(30);  // between two looks at messages

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// What a rank waits for, by sender: messages come in the order in which they were expected,
// whichever exchange they belong to.
struct Expected {
  std::span<std::byte> bytes;
  bool* has_arrived = nullptr;
};
using Queues = std::vector<std::deque<Expected>>;

class ShapedExchange : public Exchange {
 public:
  ShapedExchange(int rank, ShapedNetwork& network, Queues& queues,
                 std::span<const Outgoing> outgoing, std::span<const Incoming> incoming)
      : rank_(rank),
        network_(network),
        queues_(queues),
        has_arrived_(std::make_unique<bool[]>(incoming.size())),
        n_incoming_(incoming.size()),
        n_outgoing_(static_cast<int>(outgoing.size())) {
    for (const Outgoing& message : outgoing) {
      network_.Send(rank_, message.to, message.bytes, n_taken_);
    }
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      queues_[static_cast<std::size_t>(incoming[i].from)].push_back(
          {incoming[i].bytes, &has_arrived_[i]});
    }
  }

  Result<bool> Poll() override {
    for (std::size_t from = 0; from < queues_.size(); ++from) {
      std::deque<Expected>& queue = queues_[from];
      while (!queue.empty() && network_.Take(static_cast<int>(from), rank_, queue.front().bytes)) {
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

  int rank_;
  ShapedNetwork& network_;
  Queues& queues_;
  std::unique_ptr<bool[]> has_arrived_;
  std::size_t n_incoming_;
  int n_outgoing_;
  std::atomic<int> n_taken_ = 0;  // of them
  std::size_t n_told_ = 0;
};

class ShapedCommunicator : public Communicator {
 public:
  ShapedCommunicator(int rank, ShapedNetwork& network)
      : rank_(rank), network_(network), queues_(static_cast<std::size_t>(network.n_ranks())) {}

  int rank() const override { return rank_; }
  int size() const override { return network_.n_ranks(); }
  Traffic traffic() const override { return traffic_; }

  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    for (const Outgoing& message : outgoing) {
      ++traffic_.n_messages;
      traffic_.n_bytes += std::ssize(message.bytes);
    }
    return std::make_unique<ShapedExchange>(rank_, network_, queues_, outgoing, incoming);
  }
  Result<std::unique_ptr<Communicator>> Split(int, int) override {
    return MakeError(ErrorCode::kUnsupported, "a shaped network is not split");
  }

 private:
  int rank_;
  ShapedNetwork& network_;
  Queues queues_;
  Traffic traffic_;
};

}  // namespace

ShapedNetwork::ShapedNetwork(int n_ranks)
    : out_free_(static_cast<std::size_t>(n_ranks)), in_free_(static_cast<std::size_t>(n_ranks)) {}

void ShapedNetwork::Send(int from, int to, std::span<const std::byte> bytes,
                         std::atomic<int>& n_taken) {
  const std::scoped_lock lock(mutex_);
  Clock::time_point& out = out_free_[static_cast<std::size_t>(from)];
  Clock::time_point& in = in_free_[static_cast<std::size_t>(to)];
  const Clock::duration time = Seconds(static_cast<double>(bytes.size()) / shape_.bytes_per_second);
  out = std::max(Clock::now(), out) + time;
  in = std::max(out + Seconds(shape_.latency_seconds), in + time);
  on_their_way_[{from, to}].push_back({in, bytes, &n_taken});
}

bool ShapedNetwork::Take(int from, int to, std::span<std::byte> bytes) {
  Message message;
  {
    const std::scoped_lock lock(mutex_);
    std::deque<Message>& queue = on_their_way_[{from, to}];
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
  return std::make_unique<ShapedCommunicator>(rank, network);
}

}  // namespace fathom::bench
