#include "model/expert_transfer.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/integer_math.h"

namespace fathom {
namespace {

constexpr std::int64_t kAlignment = 64;

// Of the scales of a matrix that may be elsewhere.
std::int64_t ScaleSize(const Weight& weight) {
  switch (weight.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return 0;
    case WeightFormat::kFp8:
      return (weight.n + kFp8Block - 1) / kFp8Block * weight.ScaleColumns() *
             (weight.scale_format == ScaleFormat::kF32 ? 4 : 1);
    case WeightFormat::kFp4:
      return weight.n * weight.ScaleColumns();
  }
  return 0;
}

// Of those that have it, the rank that has sent the least so far.
int SenderOf(const ReplicaMap& map, std::int32_t expert, std::span<const std::int64_t> n_sent) {
  std::optional<int> sender;
  for (int rank = 0; rank < map.n_ranks(); ++rank) {
    if (map.IsOn(rank, expert) && (!sender || n_sent[static_cast<std::size_t>(rank)] <
                                                  n_sent[static_cast<std::size_t>(*sender)])) {
      sender = rank;
    }
  }
  Check(sender.has_value(), "an expert that a rank has");
  return *sender;
}

}  // namespace

std::vector<std::vector<ExpertTransfer>> PlanTransfers(const ReplicaMap& from,
                                                       const ReplicaMap& to) {
  std::vector<std::vector<std::int32_t>> wanted;
  std::size_t n_rounds = 0;
  for (int rank = 0; rank < to.n_ranks(); ++rank) {
    wanted.push_back(to.ExpertsOf(rank));
    std::erase_if(wanted.back(), [&](std::int32_t e) { return from.IsOn(rank, e); });
    n_rounds = std::max(n_rounds, wanted.back().size());
  }
  std::vector<std::vector<ExpertTransfer>> rounds(n_rounds);
  std::vector<std::int64_t> n_sent(wanted.size(), 0);
  for (std::size_t round = 0; round < n_rounds; ++round) {
    for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
      if (round < wanted[rank].size()) {
        const std::int32_t expert = wanted[rank][round];
        const int sender = SenderOf(from, expert, n_sent);
        ++n_sent[static_cast<std::size_t>(sender)];
        rounds[round].push_back({expert, sender, static_cast<int>(rank)});
      }
    }
  }
  return rounds;
}

std::int64_t BytesOf(const ExpertWeights& expert) {
  std::int64_t sum = 0;
  for (const Weight* weight : {&expert.w1, &expert.w2, &expert.w3}) {
    sum += RoundUp(ScaleSize(*weight), kAlignment) +
           RoundUp(weight->n * weight->RowBytes(), kAlignment);
  }
  return sum;
}

ExpertWeights BindTo(const ExpertWeights& expert, std::span<const std::byte> memory) {
  Check(std::ssize(memory) >= BytesOf(expert), "memory for all of an expert");
  ExpertWeights bound = expert;
  const std::byte* next = memory.data();
  for (Weight* weight : {&bound.w1, &bound.w2, &bound.w3}) {
    const std::int64_t scale_size = ScaleSize(*weight);
    weight->scales = scale_size == 0 ? nullptr : next;
    next += RoundUp(scale_size, kAlignment);
    weight->data = next;
    next += RoundUp(weight->n * weight->RowBytes(), kAlignment);
  }
  return bound;
}

std::array<std::span<const std::byte>, 6> PiecesOf(const ExpertWeights& expert) {
  return {expert.w1.ScaleBytes(), expert.w1.Bytes(),      expert.w2.ScaleBytes(),
          expert.w2.Bytes(),      expert.w3.ScaleBytes(), expert.w3.Bytes()};
}

}  // namespace fathom
