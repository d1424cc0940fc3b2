#include "model/expert_rebalancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "kv_cache/block_key.h"

namespace fathom {
namespace {

// What the busiest rank of a block must come down to: less is the noise of the last tokens, for
// which most experts would travel.
constexpr double kWorthMoving = 0.98;

// Adds the time until it ends.
class Watch {
 public:
  explicit Watch(double& seconds) : seconds_(seconds) {}
  ~Watch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

// What a rank has to say about a block before it moves.
struct Answer {
  std::array<char, 160> failure = {};  // ends with zeros; empty: it can
};

Answer AnswerOf(const Error& error) {
  Answer answer;
  std::copy_n(error.message.begin(), std::min(error.message.size(), answer.failure.size() - 1),
              answer.failure.begin());
  return answer;
}

BlockKey KeyOf(const ReplicaMap& map) {
  return fathom::KeyOf(std::as_bytes(std::span(map.placement().physical_to_logical)));
}

// Error: a rank whose `mine` is not that of rank 0.
Status CheckSame(Communicator& ranks, const BlockKey& mine, std::string_view what) {
  const Result<std::vector<BlockKey>> all = ranks.GatherEach(mine);
  if (!all) {
    return Unexpected(all.error());
  }
  const auto other = std::find_if(all->begin(), all->end(),
                                  [&](const BlockKey& key) { return key != all->front(); });
  if (other != all->end()) {
    return MakeError(ErrorCode::kInvalidData,
                     "expert rank {}: expected {} of expert rank 0, found another",
                     other - all->begin(), what);
  }
  return {};
}

// Loads, and how they are shared: tokens of the busiest rank and of the average one.
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

ExpertRebalancer::ExpertRebalancer(PlacedExperts& experts, std::int64_t experts_per_turn)
    : experts_(experts), experts_per_turn_(experts_per_turn) {
  Check(experts_per_turn >= 1, "at least one expert a turn");
}

// [blocks of this rank, experts]: integers, so that every order of the sum gives the same.
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
  if (!gathered) {
    return Unexpected(gathered.error());
  }
  std::vector<std::int64_t> sums(mine.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    sums[i % sums.size()] += all[i];
  }
  return sums;
}

std::int64_t ExpertRebalancer::TurnsOf(const Move& move) const {
  const std::int64_t n_rounds = std::ssize(move.rounds);
  return std::max<std::int64_t>(DivideUp(n_rounds, experts_per_turn_), 1);
}

// Stages have different blocks, and end together.
Status ExpertRebalancer::CountTurns() {
  std::int64_t mine = 0;
  for (const Move& move : moves_) {
    mine += TurnsOf(move);
  }
  const Result<std::vector<std::int64_t>> all = experts_.ranks().all->GatherEach(mine);
  if (!all) {
    return Unexpected(all.error());
  }
  n_turns_left_ = *std::max_element(all->begin(), all->end());
  return {};
}

Status ExpertRebalancer::Start() {
  Check(!is_running(), "Start before the last rebalancing has ended");
  report_ = {};
  const Watch watch(report_.seconds);
  moves_.clear();
  move_ = 0;
  round_ = 0;
  busiest_before_ = busiest_after_ = average_ = 0;

  if (Status same = CheckMaps(); !same) {
    return same;
  }
  const Result<std::vector<std::int64_t>> sums = SumLoads();
  if (!sums) {
    return Unexpected(sums.error());
  }
  Decide(*sums);
  busiest_after_ = busiest_before_;
  if (average_ > 0) {
    report_.imbalance_before = report_.imbalance_after = busiest_before_ / average_;
  }
  return CountTurns();
}

// All ranks must go on from the same maps.
Status ExpertRebalancer::CheckMaps() const {
  std::vector<std::int32_t> in_force;
  for (const std::int64_t block : experts_.Blocks()) {
    const auto& row = experts_.map(block).placement().physical_to_logical;
    in_force.insert(in_force.end(), row.begin(), row.end());
  }
  return CheckSame(*experts_.ranks().expert, fathom::KeyOf(std::as_bytes(std::span(in_force))),
                   "the placement of experts");
}

// Which blocks move, and where to. loads [blocks of this rank, experts].
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
      std::vector<std::vector<ExpertTransfer>> rounds = PlanTransfers(from, to);
      moves_.push_back({block, std::move(to), std::move(rounds), std::move(load)});
    }
  }
}

Result<bool> ExpertRebalancer::Advance() {
  const Watch watch(report_.seconds);
  if (is_running()) {
    if (move_ < moves_.size()) {
      if (Status moved = Turn(); !moved) {
        return Unexpected(moved.error());
      }
    }
    ++report_.n_turns;
    --n_turns_left_;
    if (!is_running()) {
      experts_.memory().ReleaseSpare();
    }
  }
  return !is_running();
}

// A turn of the block that is on its way.
Status ExpertRebalancer::Turn() {
  const Move& move = moves_[move_];
  if (round_ == 0) {
    const Result<bool> prepared = Prepare(move);
    if (!prepared) {
      return Unexpected(prepared.error());
    }
    if (!*prepared) {
      ++report_.n_kept_blocks;
      EndMove();
      return {};
    }
  }
  const std::size_t end =
      std::min(round_ + static_cast<std::size_t>(experts_per_turn_), move.rounds.size());
  if (Status sent = Transfer(move, round_, end); !sent) {
    return sent;
  }
  round_ = end;
  if (round_ < move.rounds.size()) {
    return {};
  }
  const Status committed = Commit(move);
  EndMove();
  return committed;
}

// Memory for what comes. False: a rank has none, and all know it.
Result<bool> ExpertRebalancer::Prepare(const Move& move) {
  Communicator& ranks = *experts_.ranks().expert;
  Answer mine;
  for (const std::vector<ExpertTransfer>& round : move.rounds) {
    for (const ExpertTransfer& transfer : round) {
      if (transfer.to != ranks.rank() || mine.failure[0] != '\0') {
        continue;
      }
      const Result<std::span<std::byte>> memory =
          experts_.memory().Take(BytesOf(experts_.Weights(move.block, transfer.expert)));
      if (memory) {
        arrivals_.emplace_back(transfer.expert, *memory);
      } else {
        mine = AnswerOf(memory.error());
      }
    }
  }
  const Result<std::vector<Answer>> all = ranks.GatherEach(mine);
  if (!all) {
    return Unexpected(all.error());
  }
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].failure[0] != '\0') {
      report_.failure = fmt::format("expert rank {}: {}", rank, (*all)[rank].failure.data());
      return false;
    }
  }
  return true;
}

Status ExpertRebalancer::Transfer(const Move& move, std::size_t first, std::size_t end) {
  Communicator& ranks = *experts_.ranks().expert;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t round = first; round < end; ++round) {
    for (const ExpertTransfer& transfer : move.rounds[round]) {
      const ExpertWeights& expert = experts_.Weights(move.block, transfer.expert);
      ++report_.n_moved_experts;
      report_.moved_bytes += BytesOf(expert);
      if (transfer.from == ranks.rank()) {
        for (const std::span<const std::byte> piece : PiecesOf(expert)) {
          if (!piece.empty()) outgoing.push_back({transfer.to, piece});
        }
      }
      if (transfer.to == ranks.rank()) {
        const std::span<std::byte> memory = MemoryOf(transfer.expert);
        for (const std::span<const std::byte> piece : PiecesOf(BindTo(expert, memory))) {
          const auto at = static_cast<std::size_t>(piece.data() - memory.data());
          if (!piece.empty()) incoming.push_back({transfer.from, memory.subspan(at, piece.size())});
        }
      }
    }
  }
  return ranks.Run(outgoing, incoming);
}

std::span<std::byte> ExpertRebalancer::MemoryOf(std::int32_t expert) const {
  const auto found = std::find_if(arrivals_.begin(), arrivals_.end(),
                                  [&](const auto& arrival) { return arrival.first == expert; });
  Check(found != arrivals_.end(), "memory for an expert that comes");
  return found->second;
}

// All ranks have everything: from here on the block is elsewhere.
Status ExpertRebalancer::Commit(const Move& move) {
  if (Status same = CheckSame(*experts_.ranks().expert, KeyOf(move.to), "the new placement");
      !same) {
    return same;
  }
  busiest_after_ +=
      BusyRanks(move.load, move.to).most - BusyRanks(move.load, experts_.map(move.block)).most;
  report_.imbalance_after = busiest_after_ / average_;
  ++report_.n_moved_blocks;
  experts_.Switch(move.block, move.to, std::move(arrivals_));
  arrivals_.clear();
  return {};
}

void ExpertRebalancer::EndMove() {
  for (const auto& [expert, memory] : arrivals_) {
    experts_.memory().GiveBack(memory);
  }
  arrivals_.clear();
  round_ = 0;
  ++move_;
}

}  // namespace fathom
