#include "experts/balance/expert_placement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fathom::experts {

ReplicaMap::ReplicaMap(std::int64_t block, const ExpertCounts& counts, ExpertPlacement placement)
    : block_(block), counts_(counts), placement_(std::move(placement)) {
  Check(std::ssize(placement_.physical_to_logical) == counts.n_physical,
        "a placement of all physical experts");
  const std::int64_t per_rank = counts.n_physical / counts.n_ranks;
  begins_.push_back(0);
  for (const std::vector<std::int32_t>& replicas : placement_.logical_to_physical) {
    for (const std::int32_t physical : replicas) {
      ranks_.push_back(static_cast<int>(physical / per_rank));
    }
    begins_.push_back(static_cast<std::int32_t>(ranks_.size()));
  }
}

bool ReplicaMap::IsOn(int rank, std::int32_t expert) const {
  const auto e = static_cast<std::size_t>(expert);
  return std::find(ranks_.begin() + begins_[e], ranks_.begin() + begins_[e + 1], rank) !=
         ranks_.begin() + begins_[e + 1];
}

std::vector<std::int32_t> ReplicaMap::ExpertsOn(int rank) const {
  std::vector<std::int32_t> experts;
  for (std::int32_t e = 0; e < counts_.n_logical; ++e) {
    if (IsOn(rank, e)) {
      experts.push_back(e);
    }
  }
  return experts;
}

Status CheckPlacements(const BlockPlacements& placements, std::int64_t n_blocks,
                       const ExpertCounts& counts) {
  if (std::ssize(placements) != n_blocks) {
    return MakeError(ErrorCode::kInvalidData, "placement: expected {} blocks, found {}", n_blocks,
                     placements.size());
  }
  for (std::size_t b = 0; b < placements.size(); ++b) {
    const std::vector<std::int32_t>& row = placements[b];
    if (std::ssize(row) != counts.n_physical) {
      return MakeError(ErrorCode::kInvalidData,
                       "placement.{}: expected {} physical experts, found {}", b, counts.n_physical,
                       row.size());
    }
    std::vector<bool> found(static_cast<std::size_t>(counts.n_logical), false);
    for (const std::int32_t expert : row) {
      if (expert < 0 || expert >= counts.n_logical) {
        return MakeError(ErrorCode::kInvalidData,
                         "placement.{}: expected experts 0 to {}, found {}", b,
                         counts.n_logical - 1, expert);
      }
      found[static_cast<std::size_t>(expert)] = true;
    }
    if (const auto missing = std::find(found.begin(), found.end(), false); missing != found.end()) {
      return MakeError(ErrorCode::kInvalidData,
                       "placement.{}: expected a replica of every expert, found none of {}", b,
                       missing - found.begin());
    }
  }
  return {};
}

std::vector<ReplicaMap> MakeReplicaMaps(const BlockPlacements& placements, std::int64_t n_blocks,
                                        const ExpertCounts& counts) {
  std::vector<ReplicaMap> maps;
  for (std::int64_t block = 0; block < n_blocks; ++block) {
    maps.emplace_back(
        block, counts,
        placements.empty()
            ? InitialPlacement(counts)
            : MakePlacement(placements[static_cast<std::size_t>(block)], counts.n_logical));
  }
  return maps;
}

void DropOtherExperts(std::span<const ReplicaMap> maps, int expert_rank, ModelWeights& weights) {
  const auto drop = [&](BlockWeights& block) {
    const ReplicaMap& map = maps[static_cast<std::size_t>(block.index)];
    std::vector<ExpertWeights>& experts = block.ffn.experts;
    for (std::int32_t e = 0; e < std::ssize(experts); ++e) {
      if (map.IsOn(expert_rank, e)) continue;
      ExpertWeights& expert = experts[static_cast<std::size_t>(e)];
      expert = WithoutData(expert);
    }
  };
  for (BlockWeights& block : weights.layers) drop(block);
  if (weights.draft) {
    for (BlockWeights& block : weights.draft->blocks) drop(block);
  }
}

}  // namespace fathom::experts
