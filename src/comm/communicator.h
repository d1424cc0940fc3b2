// Communicator: the messages between the ranks of a run.
//
// A transport (sockets between processes of one machine, MPI between machines) moves bytes between
// two ranks; everything else is built on that, once, in a fixed order, so that results depend
// neither on the transport nor on the ranks' timing (docs/numerics.md 2).
//
// All ranks of a communicator call its operations in the same order. An operation that cannot end,
// because a rank is gone or the run is stopped, returns an error that says why, and never hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace fathom::comm {

struct Outgoing {
  int to = 0;
  std::span<const std::byte> bytes;
};

struct Incoming {
  int from = 0;
  std::span<std::byte> bytes;  // exactly as many as the sender sends
};

// Messages under way. Their memory must stay valid until they have arrived or the run has failed.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Sends and receives what is possible without waiting. True: all messages have arrived.
  virtual Result<bool> Poll() = 0;
  // Returns when all messages have arrived, or when an incoming message has arrived since the last
  // call.
  virtual Status WaitForAny() = 0;
  virtual Status Wait() = 0;
  // Returns true if the i-th incoming message has arrived.
  virtual bool HasArrived(std::size_t i) const = 0;
};

// Bytes sent, for measurements: payload, without the transport's headers.
struct Traffic {
  std::int64_t n_messages = 0;
  std::int64_t n_bytes = 0;
};

// One thread at a time uses a communicator and all communicators split from it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Messages between two ranks arrive in the order in which they were started. A rank sends nothing
  // to itself.
  virtual Result<std::unique_ptr<Exchange>> Start(std::span<const Outgoing> outgoing,
                                                  std::span<const Incoming> incoming) = 0;
  // Forms a communicator of the ranks that gave the same color, in the order of their keys (then of
  // their ranks).
  virtual Result<std::unique_ptr<Communicator>> Split(int color, int key) = 0;
  // Bytes that this rank has sent so far, through any communicator.
  virtual Traffic traffic() const = 0;

  Status Send(int to, std::span<const std::byte> bytes);
  Status Receive(int from, std::span<std::byte> bytes);
  // Starts the messages and waits for them.
  Status Run(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming);

  // Returns once all ranks have called it.
  Status Barrier();
  // Copies the bytes of `root` to all ranks.
  Status Broadcast(int root, std::span<std::byte> bytes);
  // Gives every rank the pieces of all ranks, in place: pieces[i] comes from rank i % size(). The
  // ranks know the sizes, which may be 0. Each rank gives the same number of pieces.
  Status ShareInPlace(std::span<const std::span<std::byte>> pieces);
  // Gathers equally many bytes from every rank, in rank order. all: [size, mine.size()].
  Status AllGather(std::span<const std::byte> mine, std::span<std::byte> all);
  // Gathers one value from every rank, in rank order. T has no pointers and no padding that
  // matters.
  template <class T>
  Result<std::vector<T>> GatherEach(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()));
    const Status gathered =
        AllGather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (!gathered) return Unexpected(gathered.error());
    return all;
  }
  // Receives in incoming[r] what rank r has sent to this rank. The ranks know the sizes, which may
  // differ and be 0.
  Status AllToAll(std::span<const std::span<const std::byte>> outgoing,
                  std::span<const std::span<std::byte>> incoming);
  // Adds n_parts parts; every rank gets the same bits: the parts of rank 0, then of rank 1, ... are
  // added by halves, independently of the order of arrival. parts: [DivideParts(n_parts,
  // ...).count, n], the parts of this rank; sum: [n], may be the memory of a single part.
  Status AllReduceParts(Matrix<const float> parts, std::int64_t n_parts, std::span<float> sum);

 private:
  std::vector<float> scratch_;
  // Buffers of the running operation.
  std::vector<Outgoing> sends_;
  std::vector<Incoming> receives_;
  std::vector<std::span<const std::byte>> outgoing_;
  std::vector<std::span<std::byte>> pieces_;
};

// The range of [0, n) that belongs to a rank; n_ranks divides n.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
constexpr Piece DivideEvenly(std::int64_t n, int rank, int n_ranks) {
  return {n / n_ranks * rank, n / n_ranks};
}

// The parts of a sum that a rank computes (docs/numerics.md 2). One of the two numbers divides the
// other; with more ranks than parts, the last ranks have none.
constexpr Piece DivideParts(std::int64_t n_parts, int rank, int n_ranks) {
  return n_ranks <= n_parts ? DivideEvenly(n_parts, rank, n_ranks)
                            : Piece{rank < n_parts ? rank : n_parts, rank < n_parts ? 1 : 0};
}

// Adds the rows by halves into the first row (docs/numerics.md 1, the tree of other sizes: v[i] +=
// v[i + n/2]; with an odd number the middle one waits for the next round).
void SumByHalves(Matrix<float> rows);

// Makes the communicator of a single rank.
std::unique_ptr<Communicator> MakeSoloCommunicator();

}  // namespace fathom::comm
