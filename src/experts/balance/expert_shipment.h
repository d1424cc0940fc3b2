// ExpertShipment: sends experts of a block to other ranks of the stage, in pieces that are sent
// while the steps compute.
//
//   between two steps           shipment.Load(rounds, kBytesPerBlock);
//   where a block begins        shipment.Start();   // the next pieces
//   where it ends               shipment.Wait();    // on fast links the pieces have arrived
//   between two later steps     if (shipment.is_done()) ...
//
// Between blocks no message is in flight: steps may end at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "experts/balance/expert_transfer.h"

namespace fathom::experts {

// One expert to send to another rank.
struct ExpertMove {
  ExpertTransfer transfer;
  ExpertWeights weights;        // with data on the sending rank, shapes only on the others
  std::span<std::byte> memory;  // on the receiving rank: the destination [SizeInBytes(weights)]
};

// Rounds run one after the other; in each, a rank sends and receives at most one expert
// (PlanTransfers).
using ExpertMoveRounds = std::vector<std::vector<ExpertMove>>;

// The most bytes that a rank sends, and receives, while a block is computed. The block's own
// messages wait for these bytes if they have not arrived by then: 26 us on links of 10 GB/s, 0.9 ms
// on 300 MB/s.
inline constexpr std::int64_t kBytesPerBlock = 256 << 10;

// Returns the number of blocks that are needed to send the rounds.
std::int64_t BlocksToCarry(const ExpertMoveRounds& rounds, std::int64_t bytes_per_block);

// All ranks call the same functions in the same order. One thread at a time, the thread of the
// communicator.
class ExpertShipment {
 public:
  // `ranks`: the ranks of the stage, for this object alone.
  explicit ExpertShipment(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  // --- Between two steps ---
  // Begins these moves, the same on all ranks, and drops moves that have not been finished. Weights
  // and memory must stay valid until is_done().
  void Load(ExpertMoveRounds rounds, std::int64_t bytes_per_block);
  // Returns true if this rank has sent and received everything.
  bool is_done() const { return round_ == rounds_.size() && exchange_ == nullptr; }
  // Sends and receives everything that is left.
  Status Finish();
  // Returns the time that Start, Poll and Wait have taken since Load.
  double seconds() const { return seconds_; }

  // --- Within a step ---
  // Start, Poll and Wait fail if a rank cannot be reached; then no rank may run another step.
  Status Start();
  // Advances the messages without waiting.
  Status Poll();
  Status Wait();

 private:
  void Add(const ExpertMove& move, ByteRange range);

  std::unique_ptr<Communicator> ranks_;
  ExpertMoveRounds rounds_;
  std::int64_t bytes_per_block_ = 0;
  std::size_t round_ = 0;     // the next round
  std::int64_t n_bytes_ = 0;  // bytes sent of each move of the round
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::unique_ptr<Exchange> exchange_;  // null: nothing is in flight
  double seconds_ = 0;
};

}  // namespace fathom::experts
