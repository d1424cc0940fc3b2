#include "experts/balance/expert_transfer.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom::experts {
namespace {

constexpr std::int64_t kWeightAlignment = 64;

// Plans the transfers round by round.
class TransferPlan {
 public:
  TransferPlan(const ReplicaMap& from, const ReplicaMap& to)
      : from_(from), n_sent_(static_cast<std::size_t>(to.n_ranks()), 0) {
    for (int rank = 0; rank < to.n_ranks(); ++rank) {
      wanted_.push_back(to.ExpertsOn(rank));
      std::erase_if(wanted_.back(), [&](std::int32_t e) { return from.IsOn(rank, e); });
    }
  }

  // Sends every rank the first missing expert that has a free sender. Empty: no expert is missing
  // on any rank.
  std::vector<ExpertTransfer> NextRound() {
    std::vector<ExpertTransfer> round;
    std::vector<bool> is_free(wanted_.size(), true);
    for (std::size_t rank = 0; rank < wanted_.size(); ++rank) {
      std::vector<std::int32_t>& lacks = wanted_[rank];
      for (auto expert = lacks.begin(); expert != lacks.end(); ++expert) {
        if (const std::optional<int> sender = FindSender(*expert, is_free)) {
          round.push_back({*expert, *sender, static_cast<int>(rank)});
          is_free[static_cast<std::size_t>(*sender)] = false;
          ++n_sent_[static_cast<std::size_t>(*sender)];
          lacks.erase(expert);
          break;
        }
      }
    }
    return round;
  }

 private:
  // Returns the free rank that has the expert and has sent the least so far.
  std::optional<int> FindSender(std::int32_t expert, const std::vector<bool>& is_free) const {
    std::optional<int> sender;
    for (int rank = 0; rank < from_.n_ranks(); ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      if (is_free[i] && from_.IsOn(rank, expert) &&
          (!sender || n_sent_[i] < n_sent_[static_cast<std::size_t>(*sender)])) {
        sender = rank;
      }
    }
    return sender;
  }

  const ReplicaMap& from_;
  std::vector<std::vector<std::int32_t>> wanted_;  // [ranks]
  std::vector<std::int64_t> n_sent_;               // [ranks]
};

}  // namespace

std::vector<std::vector<ExpertTransfer>> PlanTransfers(const ReplicaMap& from,
                                                       const ReplicaMap& to) {
  TransferPlan plan(from, to);
  std::vector<std::vector<ExpertTransfer>> rounds;
  for (auto round = plan.NextRound(); !round.empty(); round = plan.NextRound()) {
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::array<ByteRange, 6> MakeExpertLayout(const ExpertWeights& expert) {
  std::array<ByteRange, 6> layout;
  std::int64_t next = 0;
  std::size_t i = 0;
  for (const Weight* weight : {&expert.w1, &expert.w2, &expert.w3}) {
    for (const std::int64_t size : {weight->AllScaleBytes(), weight->n * weight->RowBytes()}) {
      layout[i++] = {next, size};
      next += RoundUp(size, kWeightAlignment);
    }
  }
  return layout;
}

std::int64_t SizeInBytes(const ExpertWeights& expert) {
  return RoundUp(MakeExpertLayout(expert).back().end(), kWeightAlignment);
}

ExpertWeights BindTo(const ExpertWeights& expert, std::span<const std::byte> memory) {
  Check(std::ssize(memory) >= SizeInBytes(expert), "memory for all of an expert");
  ExpertWeights bound = expert;
  const std::array<ByteRange, 6> layout = MakeExpertLayout(expert);
  std::size_t i = 0;
  for (Weight* weight : {&bound.w1, &bound.w2, &bound.w3}) {
    const ByteRange scales = layout[i++];
    weight->scales = scales.size == 0 ? nullptr : memory.data() + scales.first;
    weight->data = memory.data() + layout[i++].first;
  }
  return bound;
}

std::span<std::byte> PlacedBytes(const ExpertWeights& expert, std::span<std::byte> memory) {
  const std::byte* const first = expert.w1.scales != nullptr ? expert.w1.scales : expert.w1.data;
  const std::span<std::byte> found = memory.subspan(static_cast<std::size_t>(first - memory.data()),
                                                    static_cast<std::size_t>(SizeInBytes(expert)));
  Check(BindTo(expert, found).w3.data == expert.w3.data, "an expert in one piece");
  return found;
}

std::array<std::span<const std::byte>, 6> DataPieces(const ExpertWeights& expert) {
  return {expert.w1.ScaleBytes(), expert.w1.Bytes(),      expert.w2.ScaleBytes(),
          expert.w2.Bytes(),      expert.w3.ScaleBytes(), expert.w3.Bytes()};
}

}  // namespace fathom::experts
