#include "experts/balance/expert_rebalancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/time_spent.h"
#include "kv_cache/block_key.h"

namespace fathom::experts {
namespace {

// A block moves only if the load of its busiest rank falls below this share of the present load:
// smaller gains are noise of the last tokens, for which most experts would move.
constexpr double kWorthMoving = 0.98;

// A rank's answer to the question whether it is ready to move a block.
struct Answer {
  std::array<char, 256> failure = {};  // ends with zeros; empty: it is ready
};

Answer MakeAnswer(const Error& error) {
  Answer answer;
  std::copy_n(error.message.begin(), std::min(error.message.size(), answer.failure.size() - 1),
              answer.failure.begin());
  return answer;
}

BlockKey HashPlacement(const ReplicaMap& map) {
  return HashBytes(std::as_bytes(std::span(map.placement().physical_to_logical)));
}

// Error: a rank whose `mine` differs from that of rank 0.
Status CheckSame(Communicator& ranks, const BlockKey& mine, std::string_view what) {
  const Result<std::vector<BlockKey>> all = ranks.GatherEach(mine);
  if (!all) return Unexpected(all.error());
  const auto other = std::find_if(all->begin(), all->end(),
                                  [&](const BlockKey& key) { return key != all->front(); });
  if (other != all->end()) {
    return MakeError(ErrorCode::kInvalidData,
                     "expert rank {}: expected {} of expert rank 0, found another",
                     other - all->begin(), what);
  }
  return {};
}

// Tokens of the busiest rank and of the average rank.
struct Busy {
  double most = 0;
  double average = 0;
};

Busy BusyRanks(std::span<const float> load, const ReplicaMap& map) {
  const double average = static_cast<double>(std::accumulate(load.begin(), load.end(), 0.0)) /
                         static_cast<double>(map.n_ranks());
  return {RankImbalance(load, map.placement(), map.n_ranks()) * average, average};
}

}  // namespace

ExpertRebalancer::ExpertRebalancer(PlacedExperts& experts, std::int64_t bytes_per_block)
    : experts_(experts), bytes_per_block_(bytes_per_block) {
  Check(bytes_per_block >= 1, "at least one byte a block");
}

// Returns the loads of all ranks [blocks of this rank, experts]. The sum of integers does not
// depend on the order.
Result<std::vector<std::int64_t>> ExpertRebalancer::SumLoads() const {
  std::vector<std::int64_t> mine;
  for (const std::int64_t block : experts_.Blocks()) {
    const auto loads = experts_.Loads(block);
    mine.insert(mine.end(), loads.begin(), loads.end());
  }
  Communicator& ranks = *experts_.ranks().expert;
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  const Status gathered =
      ranks.AllGather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  if (!gathered) return Unexpected(gathered.error());
  std::vector<std::int64_t> sums(mine.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    sums[i % sums.size()] += all[i];
  }
  return sums;
}

// Counts the steps of the slowest stage: stages have different blocks and end together. A block
// comes into force between two steps, so the next block never shares a step with it.
Status ExpertRebalancer::CountSteps() {
  const ModelShard& shard = experts_.ranks().shard;
  const std::int64_t n_blocks = shard.end_layer - shard.first_layer;
  std::int64_t mine = 0;
  for (const Move& move : moves_) {
    const std::int64_t n_steps = DivideUp(BlocksToCarry(move.rounds, bytes_per_block_), n_blocks);
    mine += std::max<std::int64_t>(n_steps, 1);
  }
  const Result<std::vector<std::int64_t>> all = experts_.ranks().all->GatherEach(mine);
  if (!all) return Unexpected(all.error());
  n_steps_left_ = *std::max_element(all->begin(), all->end());
  return {};
}

Status ExpertRebalancer::Start() {
  Check(!is_running(), "Start before the last rebalancing has ended");
  report_ = {};
  const TimeSpent spent(report_.seconds);
  moves_.clear();
  move_ = 0;
  busiest_before_ = busiest_after_ = average_ = 0;

  if (Status same = CheckMaps(); !same) return same;
  const Result<std::vector<std::int64_t>> sums = SumLoads();
  if (!sums) return Unexpected(sums.error());
  Decide(*sums);
  busiest_after_ = busiest_before_;
  if (average_ > 0) {
    report_.imbalance_before = report_.imbalance_after = busiest_before_ / average_;
  }
  if (Status counted = CountSteps(); !counted) return counted;
  return BeginMove();
}

// Checks that all ranks begin with the same maps.
Status ExpertRebalancer::CheckMaps() const {
  std::vector<std::int32_t> in_force;
  for (const std::int64_t block : experts_.Blocks()) {
    const auto& row = experts_.map(block).placement().physical_to_logical;
    in_force.insert(in_force.end(), row.begin(), row.end());
  }
  return CheckSame(*experts_.ranks().expert, HashBytes(std::as_bytes(std::span(in_force))),
                   "the placement of experts");
}

// Decides which blocks move, and to which maps. loads [blocks of this rank, experts].
void ExpertRebalancer::Decide(std::span<const std::int64_t> loads) {
  for (const std::int64_t block : experts_.Blocks()) {
    const ReplicaMap& from = experts_.map(block);
    const auto n_experts = static_cast<std::size_t>(from.counts().n_logical);
    std::vector<float> load;
    for (const std::int64_t n_tokens : loads.first(n_experts)) {
      load.push_back(static_cast<float>(n_tokens));
    }
    loads = loads.subspan(n_experts);
    ReplicaMap to(block, from.counts(), BalanceExperts(load, from.counts()));
    const Busy now = BusyRanks(load, from);
    busiest_before_ += now.most;
    average_ += now.average;
    if (BusyRanks(load, to).most < kWorthMoving * now.most) {
      ExpertMoveRounds rounds = PlanRounds(block, to);
      moves_.push_back({block, std::move(to), std::move(rounds), std::move(load)});
    }
  }
}

// Returns the moves of a block, not yet with memory for the experts that arrive.
ExpertMoveRounds ExpertRebalancer::PlanRounds(std::int64_t block, const ReplicaMap& to) const {
  ExpertMoveRounds rounds;
  for (const std::vector<ExpertTransfer>& transfers : PlanTransfers(experts_.map(block), to)) {
    std::vector<ExpertMove>& round = rounds.emplace_back();
    for (const ExpertTransfer& transfer : transfers) {
      round.push_back({transfer, experts_.Weights(block, transfer.expert), {}});
    }
  }
  return rounds;
}

Result<bool> ExpertRebalancer::Advance() {
  if (is_running()) {
    ++report_.n_steps;
    if (Status proceeded = Advance(n_steps_left_ - 1); !proceeded) {
      return Unexpected(proceeded.error());
    }
  }
  return !is_running();
}

Status ExpertRebalancer::Finish() { return is_running() ? Advance(0) : Status(); }

// Finishes the blocks that have arrived, or all blocks if no step is left to carry the others.
Status ExpertRebalancer::Advance(std::int64_t n_steps_left) {
  const TimeSpent spent(report_.seconds);
  Status status;
  while (status && move_ < moves_.size() && (n_steps_left == 0 || experts_.shipment().is_done())) {
    status = FinishMove();
    if (status) status = BeginMove();
  }
  if (!status) return status;
  n_steps_left_ = n_steps_left;
  if (!is_running()) {
    experts_.memory().ReleaseFree();
  }
  return {};
}

// Begins with the next block for which all ranks have memory.
Status ExpertRebalancer::BeginMove() {
  for (; move_ < moves_.size(); ++move_) {
    const Result<bool> prepared = Prepare(moves_[move_]);
    if (!prepared) return Unexpected(prepared.error());
    if (*prepared) {
      experts_.shipment().Load(moves_[move_].rounds, bytes_per_block_);
      return {};
    }
    for (const auto& [expert, memory] : ListArrivals(moves_[move_])) {
      experts_.memory().Free(memory);
    }
    ++report_.n_kept_blocks;
  }
  return {};
}

// Allocates memory for the experts that arrive. False on all ranks if one rank has too little.
Result<bool> ExpertRebalancer::Prepare(Move& move) {
  const Status allocated = AllocateMemory(move);
  const Answer mine = allocated ? Answer() : MakeAnswer(allocated.error());
  const Result<std::vector<Answer>> all = experts_.ranks().expert->GatherEach(mine);
  if (!all) return Unexpected(all.error());
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].failure[0] != '\0') {
      report_.failure = fmt::format("expert rank {}: {}", rank, (*all)[rank].failure.data());
      return false;
    }
  }
  return true;
}

Status ExpertRebalancer::AllocateMemory(Move& move) {
  for (std::vector<ExpertMove>& round : move.rounds) {
    for (ExpertMove& expert_move : round) {
      if (expert_move.transfer.to != experts_.ranks().expert->rank()) continue;
      const Result<std::span<std::byte>> memory =
          experts_.memory().Allocate(SizeInBytes(expert_move.weights));
      if (!memory) return Unexpected(memory.error());
      expert_move.memory = *memory;
    }
  }
  return {};
}

// Returns the experts of a move that this rank receives.
std::vector<PlacedExperts::Arrival> ExpertRebalancer::ListArrivals(const Move& move) {
  std::vector<PlacedExperts::Arrival> arrivals;
  for (const std::vector<ExpertMove>& round : move.rounds) {
    for (const ExpertMove& expert_move : round) {
      if (!expert_move.memory.empty()) {
        arrivals.emplace_back(expert_move.transfer.expert, expert_move.memory);
      }
    }
  }
  return arrivals;
}

// Waits for the moving block and activates it.
Status ExpertRebalancer::FinishMove() {
  ExpertShipment& shipment = experts_.shipment();
  report_.seconds += shipment.seconds();  // waits within the steps
  if (Status arrived = shipment.Finish(); !arrived) return arrived;
  return Commit(moves_[move_++]);
}

// Switches to the new map and weights once all ranks have everything.
Status ExpertRebalancer::Commit(const Move& move) {
  if (Status same =
          CheckSame(*experts_.ranks().expert, HashPlacement(move.to), "the new placement");
      !same) {
    return same;
  }
  busiest_after_ +=
      BusyRanks(move.load, move.to).most - BusyRanks(move.load, experts_.map(move.block)).most;
  report_.imbalance_after = busiest_after_ / average_;
  ++report_.n_moved_blocks;
  for (const std::vector<ExpertMove>& round : move.rounds) {
    for (const ExpertMove& expert_move : round) {
      ++report_.n_moved_experts;
      report_.moved_bytes += SizeInBytes(expert_move.weights);
    }
  }
  experts_.Switch(move.block, move.to, ListArrivals(move));
  return {};
}

// --- RebalanceSchedule ---

RebalanceSchedule::RebalanceSchedule(ExpertRebalancer& rebalancer, std::int64_t interval,
                                     OnEnd on_end)
    : rebalancer_(rebalancer),
      interval_(interval),
      on_end_(std::move(on_end)),
      n_tokens_(interval - interval / 4) {
  Check(interval >= 1, "an interval of at least one token");
}

Status RebalanceSchedule::AfterStep(std::int64_t n_tokens) {
  n_tokens_ += n_tokens;
  if (has_begun_) {
    const Result<bool> advanced = rebalancer_.Advance();
    if (advanced && *advanced) {
      End();
    }
    return advanced ? Status() : Unexpected(advanced.error());
  }
  if (n_tokens_ < interval_) return {};
  n_tokens_ = 0;
  has_begun_ = true;
  return rebalancer_.Start();
}

Status RebalanceSchedule::Finish() {
  if (!has_begun_) return {};
  Status finished = rebalancer_.Finish();
  if (finished) {
    End();
  }
  return finished;
}

void RebalanceSchedule::End() {
  has_begun_ = false;
  on_end_(rebalancer_.report());
}

}  // namespace fathom::experts
