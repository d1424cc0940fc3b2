#include "experts/balance/expert_shipment.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/time_spent.h"

namespace fathom::experts {
namespace {

// Returns the bytes of the largest expert of the round.
std::int64_t MostBytes(std::span<const ExpertMove> round) {
  std::int64_t most = 0;
  for (const ExpertMove& move : round) {
    most = std::max(most, SizeInBytes(move.weights));
  }
  return most;
}

}  // namespace

std::int64_t BlocksToCarry(const ExpertMoveRounds& rounds, std::int64_t bytes_per_block) {
  std::int64_t n_blocks = 0;
  for (const std::vector<ExpertMove>& round : rounds) {
    n_blocks += DivideUp(MostBytes(round), bytes_per_block);
  }
  return n_blocks;
}

void ExpertShipment::Load(ExpertMoveRounds rounds, std::int64_t bytes_per_block) {
  Check(bytes_per_block >= 1 && exchange_ == nullptr, "a shipment that nothing is on its way of");
  rounds_ = std::move(rounds);
  bytes_per_block_ = bytes_per_block;
  round_ = 0;
  n_bytes_ = 0;
  seconds_ = 0;
}

Status ExpertShipment::Finish() {
  Status status;
  while (status && !is_done()) {
    status = Start();
    if (status) status = Wait();
  }
  return status;
}

Status ExpertShipment::Start() {
  if (Status arrived = Wait();
      !arrived || is_done()) {  // waits for messages of a block that failed
    return arrived;
  }
  const TimeSpent spent(seconds_);
  const std::vector<ExpertMove>& round = rounds_[round_];
  outgoing_.clear();
  incoming_.clear();
  for (const ExpertMove& move : round) {
    Add(move, {n_bytes_, bytes_per_block_});
  }
  n_bytes_ += bytes_per_block_;
  if (n_bytes_ >= MostBytes(round)) {
    ++round_;
    n_bytes_ = 0;
  }
  if (outgoing_.empty() && incoming_.empty()) return {};
  Result<std::unique_ptr<Exchange>> started = ranks_->Start(outgoing_, incoming_);
  if (!started) return Unexpected(started.error());
  exchange_ = *std::move(started);
  return {};
}

// Adds the messages of this rank for a range of an expert's memory: one for each piece that is in
// the range, whole or in part.
void ExpertShipment::Add(const ExpertMove& move, ByteRange range) {
  const bool sends = move.transfer.from == ranks_->rank();
  const bool is_sent = move.transfer.to == ranks_->rank();
  const std::array<ByteRange, 6> layout = MakeExpertLayout(move.weights);
  for (std::size_t i = 0; (sends || is_sent) && i < layout.size(); ++i) {
    const std::int64_t first = std::max(range.first, layout[i].first);
    const std::int64_t end = std::min(range.end(), layout[i].end());
    if (first >= end) continue;
    const auto size = static_cast<std::size_t>(end - first);
    if (sends) {
      const auto at = static_cast<std::size_t>(first - layout[i].first);
      outgoing_.push_back({move.transfer.to, DataPieces(move.weights)[i].subspan(at, size)});
    } else {
      const auto at = static_cast<std::size_t>(first);
      incoming_.push_back({move.transfer.from, move.memory.subspan(at, size)});
    }
  }
}

Status ExpertShipment::Poll() {
  if (exchange_ == nullptr) return {};
  const TimeSpent spent(seconds_);
  const Result<bool> polled = exchange_->Poll();
  return polled ? Status() : Unexpected(polled.error());
}

Status ExpertShipment::Wait() {
  if (exchange_ == nullptr) return {};
  const TimeSpent spent(seconds_);
  Status waited = exchange_->Wait();
  if (waited) {
    exchange_.reset();
  }
  return waited;
}

}  // namespace fathom::experts
