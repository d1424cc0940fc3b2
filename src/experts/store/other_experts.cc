#include "experts/store/other_experts.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace fathom {

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

}  // namespace fathom
