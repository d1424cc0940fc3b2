#include "comm/communicator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace fathom::comm {
namespace {

// Returns the columns of n that rank i of `size` adds up: about equally many for each rank.
Piece RankColumns(std::int64_t n, int i, int size) {
  const std::int64_t first = n * i / size;
  return {first, n * (i + 1) / size - first};
}

class SoloExchange : public Exchange {
 public:
  Result<bool> Poll() override { return true; }
  Status WaitForAny() override { return {}; }
  Status Wait() override { return {}; }
  bool HasArrived(std::size_t) const override { return true; }
};

class SoloCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) override {
    Check(outgoing.empty() && incoming.empty(), "a single rank has nobody to talk to");
    return std::make_unique<SoloExchange>();
  }
  Result<std::unique_ptr<Communicator>> Split(int, int) override { return MakeSoloCommunicator(); }
  Traffic traffic() const override { return {}; }
};

}  // namespace

std::unique_ptr<Communicator> MakeSoloCommunicator() {
  return std::make_unique<SoloCommunicator>();
}

void SumByHalves(Matrix<float> rows) {
  for (std::int64_t n = rows.rows; n > 1;) {
    const std::int64_t half = (n + 1) / 2;
    for (std::int64_t i = 0; i + half < n; ++i) {
      float* const sum = rows.Row(i);
      const float* const other = rows.Row(i + half);
      for (std::int64_t c = 0; c < rows.cols; ++c) {
        sum[c] += other[c];
      }
    }
    n = half;
  }
}

Status Communicator::Run(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
  Result<std::unique_ptr<Exchange>> exchange = Start(outgoing, incoming);
  if (!exchange) return Unexpected(exchange.error());
  return (*exchange)->Wait();
}

Status Communicator::Send(int to, std::span<const std::byte> bytes) {
  return Run(std::array{Outgoing{to, bytes}}, {});
}

Status Communicator::Receive(int from, std::span<std::byte> bytes) {
  return Run({}, std::array{Incoming{from, bytes}});
}

Status Communicator::Barrier() {
  std::vector<std::byte> all(static_cast<std::size_t>(size()));
  return AllGather(std::array{std::byte{1}}, all);
}

// Sends along a binomial tree: in round k the 2^k ranks nearest to the root pass the bytes on.
Status Communicator::Broadcast(int root, std::span<std::byte> bytes) {
  const int distance = (rank() - root + size()) % size();
  int reach = 1;
  for (; reach < size(); reach *= 2) {
    if (distance >= reach && distance < 2 * reach) {
      if (Status received = Receive((root + distance - reach) % size(), bytes); !received) {
        return received;
      }
    }
  }
  // Ranks that received the bytes in round k pass them on in all later rounds; all sends start
  // together.
  std::vector<Outgoing> outgoing;
  for (int step = 1; step < reach; step *= 2) {
    if (distance < step && distance + step < size()) {
      outgoing.push_back({(root + distance + step) % size(), bytes});
    }
  }
  return Run(outgoing, {});
}

Status Communicator::AllGather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t n = mine.size();
  Check(all.size() == n * static_cast<std::size_t>(size()), "room for what every rank gives");
  pieces_.clear();
  for (int r = 0; r < size(); ++r) {
    pieces_.push_back(all.subspan(static_cast<std::size_t>(r) * n, n));
  }
  if (n > 0) {
    std::memmove(pieces_[static_cast<std::size_t>(rank())].data(), mine.data(), n);
  }
  return ShareInPlace(pieces_);
}

Status Communicator::ShareInPlace(std::span<const std::span<std::byte>> pieces) {
  const auto n_ranks = static_cast<std::size_t>(size());
  Check(pieces.size() % n_ranks == 0, "as many pieces from each rank");
  sends_.clear();
  receives_.clear();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t mine = i - i % n_ranks + static_cast<std::size_t>(rank());
    const int other = static_cast<int>(i % n_ranks);
    if (other != rank() && !pieces[mine].empty()) {
      sends_.push_back({other, pieces[mine]});
    }
    if (other != rank() && !pieces[i].empty()) {
      receives_.push_back({other, pieces[i]});
    }
  }
  return Run(sends_, receives_);
}

Status Communicator::AllToAll(std::span<const std::span<const std::byte>> outgoing,
                              std::span<const std::span<std::byte>> incoming) {
  Check(std::ssize(outgoing) == size() && std::ssize(incoming) == size(), "one span per rank");
  sends_.clear();
  receives_.clear();
  for (int other = 0; other < size(); ++other) {
    const std::span<const std::byte> out = outgoing[static_cast<std::size_t>(other)];
    const std::span<std::byte> in = incoming[static_cast<std::size_t>(other)];
    if (other == rank()) {
      Check(out.size() == in.size(), "a rank gives itself what it takes");
      std::copy(out.begin(), out.end(), in.begin());
      continue;
    }
    if (!out.empty()) {
      sends_.push_back({other, out});
    }
    if (!in.empty()) {
      receives_.push_back({other, in});
    }
  }
  return Run(sends_, receives_);
}

// Every rank adds up its columns and sends the sums to the other ranks: 2 n numbers travel, while
// sending all parts to all ranks would move size * n.
Status Communicator::AllReduceParts(Matrix<const float> parts, std::int64_t n_parts,
                                    std::span<float> sum) {
  Check(parts.cols == std::ssize(sum), "as many sums as columns");
  Check(parts.rows == DivideParts(n_parts, rank(), size()).count, "the parts of this rank");
  const Piece mine = RankColumns(parts.cols, rank(), size());
  // A rank sends its parts of one range of columns, row after row.
  scratch_.resize(static_cast<std::size_t>(parts.rows * parts.cols + n_parts * mine.count));
  float* next = scratch_.data();
  const Matrix<float> terms = {next + parts.rows * parts.cols, n_parts, mine.count};
  outgoing_.clear();
  pieces_.clear();
  for (int other = 0; other < size(); ++other) {
    const Piece share = RankColumns(parts.cols, other, size());
    outgoing_.push_back(
        std::as_bytes(std::span(next, static_cast<std::size_t>(parts.rows * share.count))));
    for (std::int64_t part = 0; part < parts.rows; ++part) {
      next = std::copy_n(parts.Row(part) + share.first, share.count, next);
    }
    const Piece theirs = DivideParts(n_parts, other, size());
    pieces_.push_back(std::as_writable_bytes(
        std::span(terms.Row(theirs.first), static_cast<std::size_t>(theirs.count * mine.count))));
  }
  if (Status moved = AllToAll(outgoing_, pieces_); !moved) return moved;
  SumByHalves(terms);
  std::copy_n(terms.data, mine.count, sum.data() + mine.first);
  pieces_.clear();
  for (int r = 0; r < size(); ++r) {
    const Piece share = RankColumns(parts.cols, r, size());
    pieces_.push_back(std::as_writable_bytes(
        sum.subspan(static_cast<std::size_t>(share.first), static_cast<std::size_t>(share.count))));
  }
  return ShareInPlace(pieces_);
}

}  // namespace fathom::comm
