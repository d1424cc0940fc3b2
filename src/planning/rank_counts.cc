#include "planning/rank_counts.h"

#include <algorithm>

namespace fathom {

Result<RankCounts> CountRanks(const RankOptions& options, int n_ranks, const ModelConfig& config) {
  int n_stage_ranks = std::max(n_ranks / std::max(options.n_stages, 1), 1);
  RankCounts counts = {.n_stages = options.n_stages,
                       .n_redundant_experts = options.n_redundant_experts};
  if (options.dp_attention) {
    counts.n_data = n_stage_ranks;
    counts.n_tensor = std::max(options.n_tensor, 1);
  } else {
    counts.n_tensor = options.n_tensor != 0 ? options.n_tensor : n_stage_ranks;
  }
  const bool divides =
      counts.n_redundant_experts > 0 || config.n_routed_experts % counts.n_tensor == 0;
  counts.expert_parallel = options.n_expert != 0
                               ? options.n_expert > 1
                               : counts.n_data > 1 || (counts.n_tensor > 1 && divides);
  counts.decode_context_parallel = options.decode_context_parallel;
  if (!options.expert_exchange.empty()) {
    counts.expert_path =
        options.expert_exchange == "fused" ? ExpertPath::kFused : ExpertPath::kGather;
  }
  n_stage_ranks = counts.n_tensor * counts.n_data;
  if (options.n_expert > 1 && options.n_expert != n_stage_ranks) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--ep: expected 1 or {} (the ranks of a stage), found {}", n_stage_ranks,
                     options.n_expert);
  }
  return counts;
}

}  // namespace fathom
