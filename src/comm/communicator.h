// Communicator: what the ranks of a run say to each other.
//
// A transport (sockets between processes of one machine, MPI between machines) moves bytes between
// two ranks; everything else is built on that, once, in a fixed order, so that results do not
// depend on the transport or on who was faster (docs/numerics.md 2).
//
// All ranks of a communicator call its operations in the same order. An operation that cannot end,
// because a rank is gone or the run is stopped, is an error that says why, never a hang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom {

struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};

struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;  // exactly as many as are sent
};

// Messages on their way. Their memory must stay until they have arrived or the run has failed.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Moves what can be moved without waiting. True: all have arrived.
  virtual Result<bool> Poll() = 0;
  // Returns when all have arrived, or one of those to come that had not when it last returned.
  virtual Status WaitForAny() = 0;
  virtual Status Wait() = 0;
  // Of the i-th message to come.
  virtual bool HasArrived(std::size_t i) const = 0;
};

// What went over the wire, for measurements: payload, without the transport's own.
struct Traffic {
  std::int64_t n_messages = 0;  // sent
  std::int64_t n_bytes = 0;     // sent
};

// One thread at a time, this one and all that were split from it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Messages between two ranks arrive in the order in which they were started. To itself a rank
  // sends nothing.
  virtual Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                                  std::span<const Incoming> incoming) = 0;
  // The ranks that gave the same color, in the order of their keys (then of their ranks).
  virtual Result<std::unique_ptr<Communicator>> Split(int color, int key) = 0;
  // Sent by this rank so far, whichever communicator it was said in.
  virtual Traffic traffic() const = 0;

  Status Send(int to, std::span<const std::byte> bytes);
  Status Receive(int from, std::span<std::byte> bytes);
  // Start and Wait.
  Status Run(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming);

  // Nobody returns before everybody has called it.
  Status Barrier();
  // The bytes of `root`, everywhere.
  Status Broadcast(int root, std::span<std::byte> bytes);
  // Gives every rank the pieces of all, in place: pieces[i] is that of rank i % size(), whose size
  // the ranks know, also 0. As many from each rank.
  Status ShareInPlace(std::span<const std::span<std::byte>> pieces);
  // all [size, mine.size()]: what every rank gave, which is equally much; in rank order.
  Status AllGather(std::span<const std::byte> mine, std::span<std::byte> all);
  // What every rank gave, in rank order. T has no pointers and no padding that matters.
  template <class T>
  Result<std::vector<T>> GatherEach(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()));
    const Status gathered =
        AllGather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (!gathered) {
      return Unexpected(gathered.error());
    }
    return all;
  }
  // What rank r gave for this one comes in incoming[r], whose sizes the ranks know; of different
  // sizes, also 0.
  Status AllToAll(std::span<const std::span<const std::byte>> outgoing,
                  std::span<const std::span<std::byte>> incoming);
  // The sum of n_parts parts, everywhere the same bits: those of rank 0, then of rank 1, ... are
  // added by halves, whoever comes first. parts [parts of this rank, n]: as many as PartsOf says;
  // sum [n].
  Status AllReduceParts(Matrix<const float> parts, std::int64_t n_parts, std::span<float> sum);
  // The same of one part per rank, in place.
  Status AllReduceSum(std::span<float> values);

 private:
  std::vector<float> scratch_;
  // Of the operation that is running.
  std::vector<Outgoing> sends_;
  std::vector<Incoming> receives_;
  std::vector<std::span<const std::byte>> outgoing_;
  std::vector<std::span<std::byte>> pieces_;
};

// The pieces of [0, n) that n_ranks have, which divides n.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
constexpr Piece PieceOf(std::int64_t n, int rank, int n_ranks) {
  return {n / n_ranks * rank, n / n_ranks};
}

// The parts of a sum that a rank computes (docs/numerics.md 2). One of the two numbers divides the
// other; where there are more ranks than parts, the last ranks have none.
constexpr Piece PartsOf(std::int64_t n_parts, int rank, int n_ranks) {
  return n_ranks <= n_parts ? PieceOf(n_parts, rank, n_ranks)
                            : Piece{rank < n_parts ? rank : n_parts, rank < n_parts ? 1 : 0};
}

// The sum of the rows by halves (docs/numerics.md 1, the tree of other sizes: v[i] += v[i + n/2];
// of an odd number the middle one waits for the next round), into the first of them.
void SumByHalves(Matrix<float> rows);

// The communicator of a single rank.
std::unique_ptr<Communicator> MakeSoloCommunicator();

}  // namespace fathom
