// ReplicaMap: the rank that computes an expert for a token (docs/spec/parallel.md 4, 5).
//
// A router chooses logical experts. Each of them has one or more replicas, the physical experts,
// which are divided evenly among the expert ranks: rank r has [r * P / ranks, (r + 1) * P / ranks).
// All ranks of a stage have the same maps, and the position of a token in its sequence selects the
// replica, so that all ranks agree without messages. The rank that computes an expert changes no
// bit of the result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "experts/balance/expert_balancer.h"
#include "model/weights.h"

namespace fathom::experts {

// The replicas of one block's routed experts. A value; any thread may read it.
class ReplicaMap {
 public:
  // The counts and the placement must be valid (CheckCounts, CheckPlacements).
  ReplicaMap(std::int64_t block, const ExpertCounts& counts, ExpertPlacement placement);

  // Returns the expert rank that computes `expert` for the token at `position` of its sequence. The
  // positions are spread evenly over the ranks that have the expert.
  int FindRank(std::int32_t position, std::int32_t expert) const {
    const std::int32_t* const first = ranks_.data() + begins_[static_cast<std::size_t>(expert)];
    const std::int32_t count =
        begins_[static_cast<std::size_t>(expert) + 1] - begins_[static_cast<std::size_t>(expert)];
    return count == 1 ? *first : first[Spread(position) % static_cast<std::uint64_t>(count)];
  }
  bool IsOn(int rank, std::int32_t expert) const;
  // Returns the experts of the rank, ascending, without repeats: replicas of one expert on one rank
  // share their weights.
  std::vector<std::int32_t> ExpertsOn(int rank) const;
  std::int64_t n_ranks() const { return counts_.n_ranks; }

  const ExpertCounts& counts() const { return counts_; }
  const ExpertPlacement& placement() const { return placement_; }

 private:
  // splitmix64 of position and block.
  std::uint64_t Spread(std::int32_t position) const {
    std::uint64_t x = (static_cast<std::uint64_t>(block_) << 32) +
                      static_cast<std::uint32_t>(position) + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (x ^ (x >> 31)) >> 1;
  }

  std::int64_t block_;
  ExpertCounts counts_;
  ExpertPlacement placement_;
  std::vector<std::int32_t> begins_;  // [experts + 1], in ranks_
  std::vector<int> ranks_;            // [physical]: ranks of the replicas, expert after expert
};

// physical_to_logical of every block; the draft block follows the layers.
using BlockPlacements = std::vector<std::vector<std::int32_t>>;

// Error: not n_blocks rows of a logical expert per physical one, or an expert without replica. The
// message names the block.
Status CheckPlacements(const BlockPlacements& placements, std::int64_t n_blocks,
                       const ExpertCounts& counts);

// Makes a map per block; if `placements` is empty, physical expert p holds logical expert p mod E.
std::vector<ReplicaMap> MakeReplicaMaps(const BlockPlacements& placements, std::int64_t n_blocks,
                                        const ExpertCounts& counts);

// Removes the data of the experts that `expert_rank` does not have from bound weights. `maps` has
// one map for each block; the draft block follows the layers.
void DropOtherExperts(std::span<const ReplicaMap> maps, int expert_rank, ModelWeights& weights);

}  // namespace fathom::experts
