#include "distributed/model_ranks.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/weight_format.h"

namespace fathom::distributed {
namespace {

Status CheckDivides(std::string_view option, int n, std::string_view what, std::int64_t size) {
  if (size % n != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a number that divides {} ({}), found {}", option, size, what, n);
  }
  return {};
}

// Returns the ends of the stages' layers, such that the heaviest stage is as light as possible;
// among equal divisions, the division with the shortest first stages.
std::vector<std::int64_t> DivideLayers(std::span<const std::int64_t> bytes,
                                       std::int64_t first_extra, std::int64_t last_extra,
                                       int n_stages) {
  const auto n = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> before(bytes.size() + 1, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    before[i + 1] = before[i] + bytes[i];
  }
  // best[s][i]: the weight of the heaviest of the first s stages if they have the layers before i.
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const auto n_rows = static_cast<std::size_t>(n_stages) + 1;
  std::vector<std::vector<std::int64_t>> best(n_rows, std::vector(before.size(), kNever));
  std::vector<std::vector<std::int64_t>> begins(n_rows, std::vector<std::int64_t>(before.size()));
  best[0][0] = 0;
  for (std::size_t s = 1; s < n_rows; ++s) {
    const std::int64_t extra = (s == 1 ? first_extra : 0) + (s + 1 == n_rows ? last_extra : 0);
    for (std::int64_t end = 1; end <= n; ++end) {
      for (std::int64_t begin = 0; begin < end; ++begin) {
        const auto i = static_cast<std::size_t>(begin), j = static_cast<std::size_t>(end);
        const std::int64_t heaviest = std::max(best[s - 1][i], before[j] - before[i] + extra);
        if (best[s - 1][i] != kNever && heaviest < best[s][j]) {
          best[s][j] = heaviest;
          begins[s][j] = begin;
        }
      }
    }
  }
  std::vector<std::int64_t> ends(static_cast<std::size_t>(n_stages));
  std::int64_t end = n;
  for (std::size_t s = ends.size(); s > 0; --s) {
    ends[s - 1] = end;
    end = begins[s][static_cast<std::size_t>(end)];
  }
  return ends;
}

// Explains that a single process that should be several ranks was started without `fathom launch`.
std::string HowToStart(int wanted, int n_ranks) {
  if (n_ranks != 1 || wanted < 2) return {};
  return fmt::format("; fathom launch -n {0} COMMAND starts {0} ranks on this machine", wanted);
}

Status CheckProduct(const RankCounts& counts, int n_ranks) {
  if (counts.n_data > 1 && (counts.n_tensor != 1 || !counts.expert_parallel)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--dp-attention: expected --tp 1 and the experts on all ranks of a stage "
                     "(without --ep, or --ep {}), found --tp {}{}",
                     counts.n_data, counts.n_tensor, counts.expert_parallel ? "" : " --ep 1");
  }
  const int n_stage = counts.n_tensor * counts.n_data;
  if (counts.n_tensor < 1 || counts.n_data < 1 || counts.n_stages < 1 ||
      n_stage * counts.n_stages != n_ranks) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} times --pp: expected the number of ranks, {}, found {} times {}{}",
                     counts.n_data > 1 ? "--dp-attention" : "--tp", n_ranks, n_stage,
                     counts.n_stages, HowToStart(n_stage * counts.n_stages, n_ranks));
  }
  return {};
}

Status CheckContextParallel(const RankCounts& counts) {
  constexpr std::int64_t kRowsOfBlock = kBlockTokens / 4;
  if (!counts.decode_context_parallel) return {};
  if (counts.n_tensor == 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--decode-context-parallel: expected tensor ranks (--tp of 2 or more), found "
                     "--tp 1{}",
                     counts.n_data > 1 ? " and --dp-attention" : "");
  }
  return CheckDivides("--decode-context-parallel: --tp", counts.n_tensor,
                      "rows of a block of the cache", kRowsOfBlock);
}

Status CheckPath(const ModelConfig& config, const RankCounts& counts, int n_ranks) {
  if (counts.expert_path != ExpertPath::kFused) return {};
  if (!counts.expert_parallel) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--expert-exchange fused: needs the routed experts on several ranks of a "
                     "stage, found {} ranks that do not share them: use --ep (as many as --tp) or "
                     "--dp-attention, or --expert-exchange gather",
                     n_ranks);
  }
  for (const auto& [what, size] : {std::pair{"hidden", config.hidden_size},
                                   std::pair{"intermediate", config.moe_intermediate_size}}) {
    if (size % kFp8Block != 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--expert-exchange fused: expected {} sizes that are multiples of {}, found "
                       "{}: use --expert-exchange gather",
                       what, kFp8Block, size);
    }
  }
  return {};
}

Status CheckExpertCounts(const ModelConfig& config, const RankCounts& counts) {
  const std::int64_t n_redundant = counts.n_redundant_experts;
  const int n_expert = counts.n_tensor * counts.n_data;
  if (n_redundant == 0) {
    return counts.expert_parallel
               ? CheckDivides(counts.n_data > 1 ? "--dp-attention" : "--ep", n_expert,
                              "routed experts", config.n_routed_experts)
               : Status();
  }
  if (!counts.expert_parallel || n_expert == 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--redundant-experts: expected 0 where no ranks share the experts (--ep), "
                     "found {}",
                     n_redundant);
  }
  return CheckCounts({.n_logical = config.n_routed_experts,
                      .n_physical = config.n_routed_experts + n_redundant,
                      .n_ranks = n_expert});
}

}  // namespace

ModelShard WholeModel(const ModelConfig& config) { return {.end_layer = config.num_hidden_layers}; }

ExpertCounts CountExperts(const ModelConfig& config, const ModelShard& shard) {
  return {.n_logical = config.n_routed_experts,
          .n_physical = config.n_routed_experts + shard.n_redundant_experts,
          .n_ranks = shard.n_expert};
}

Status CheckCounts(const ExpertCounts& counts) {
  if (counts.n_physical < counts.n_logical || counts.n_physical % counts.n_ranks != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--redundant-experts: expected a number that makes {} experts and the "
                     "redundant ones a multiple of {} (expert ranks), found {}",
                     counts.n_logical, counts.n_ranks, counts.n_physical - counts.n_logical);
  }
  if (counts.n_ranks % counts.n_nodes != 0 || counts.n_logical % counts.n_groups != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "expected as many ranks on every node and experts in every group, found {} "
                     "ranks on {} nodes, {} experts in {} groups",
                     counts.n_ranks, counts.n_nodes, counts.n_logical, counts.n_groups);
  }
  return {};
}

Stage MakeStage(const ModelShard& shard) {
  return {.first_layer = shard.first_layer,
          .end_layer = shard.end_layer,
          .is_first = shard.is_first_stage(),
          .is_last = shard.is_last_stage(),
          .is_whole = shard.is_whole(),
          .data = shard.data(),
          .most_in_flight = LogitSlots(shard)};
}

CacheShape ShardCache(CacheShape whole, const ModelShard& shard) {
  whole.rows_of_ratio_4 = shard.RowsOfRatio4();
  whole.data = shard.data();
  whole.first_layer = shard.first_layer;
  if (!shard.is_last_stage()) {
    whole.end_layer = shard.end_layer;
  }
  return whole;
}

ExpertPath ChooseExpertPath(const ModelConfig& config, const RankCounts& counts) {
  const bool possible = counts.expert_parallel && config.hidden_size % kFp8Block == 0 &&
                        config.moe_intermediate_size % kFp8Block == 0;
  return counts.expert_path.value_or(possible ? ExpertPath::kFused : ExpertPath::kGather);
}

Status CheckCounts(const ModelConfig& config, const RankCounts& counts, int n_ranks) {
  if (Status fits = CheckProduct(counts, n_ranks); !fits) return fits;
  if (Status possible = CheckPath(config, counts, n_ranks); !possible) return possible;
  if (Status possible = CheckContextParallel(counts); !possible) return possible;
  if (counts.n_stages > config.num_hidden_layers) {
    return MakeError(ErrorCode::kInvalidArgument, "--pp: expected at most {} (layers), found {}",
                     config.num_hidden_layers, counts.n_stages);
  }
  const int n_tensor = counts.n_tensor;
  const std::int64_t latent = config.o_groups * config.o_lora_rank;
  Status status = CheckDivides("--tp", n_tensor, "query heads", config.num_attention_heads);
  if (status) status = CheckDivides("--tp", n_tensor, "output groups", config.o_groups);
  if (status) {
    status = CheckDivides("--tp", n_tensor, "parts of the sum over the output groups",
                          RowParallelParts(latent));
  }
  if (status) {
    status = CheckDivides("--tp", n_tensor, "tokens of the vocabulary", config.vocab_size);
  }
  if (status) {
    // Rows of FP8 weights share their scales.
    const std::int64_t rows = config.num_attention_heads * config.head_dim;
    if (rows / n_tensor % kFp8Block != 0 || latent / n_tensor % kFp8Block != 0) {
      status = MakeError(ErrorCode::kInvalidArgument,
                         "--tp: expected a number that leaves multiples of {} of the {} query "
                         "dimensions and the {} of the output groups, found {}",
                         kFp8Block, rows, latent, n_tensor);
    }
  }
  if (status) status = CheckExpertCounts(config, counts);
  if (status && counts.n_data > 1) {
    status = CheckDivides("--dp-attention", counts.n_data, "tokens of the vocabulary",
                          config.vocab_size);
  }
  return status;
}

StageWeights WeighStages(const Checkpoint& checkpoint, const ModelConfig& config) {
  StageWeights weights;
  weights.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const auto bytes = static_cast<std::int64_t>(tensor.view.bytes.size());
    if (tensor.name == "embed.weight") {
      weights.first += bytes;
    }
    const std::optional<std::int64_t> layer = ParseLayer(tensor.name);
    if (!layer) {
      weights.last += bytes;  // the embedding too, for the draft block
    } else if (*layer < config.num_hidden_layers) {
      weights.layers[static_cast<std::size_t>(*layer)] += bytes;
    }
  }
  return weights;
}

ModelShard ShardOfRank(int rank, const RankCounts& counts, const StageWeights& weights) {
  ModelShard shard;
  shard.n_tensor = counts.n_tensor;
  shard.tensor_rank = rank % counts.n_tensor;
  shard.n_data = counts.n_data;
  shard.data_rank = rank / counts.n_tensor % counts.n_data;
  shard.n_stages = counts.n_stages;
  shard.stage = rank / shard.n_stage_ranks();
  if (counts.expert_parallel) {
    shard.n_expert = shard.n_stage_ranks();
    shard.expert_rank = shard.stage_rank();
    shard.n_redundant_experts = counts.n_redundant_experts;
  }
  shard.expert_path = counts.expert_path.value_or(ExpertPath::kGather);
  shard.decode_context_parallel = counts.decode_context_parallel;
  const std::vector<std::int64_t> ends =
      DivideLayers(weights.layers, weights.first, weights.last, counts.n_stages);
  const auto stage = static_cast<std::size_t>(shard.stage);
  shard.first_layer = stage == 0 ? 0 : ends[stage - 1];
  shard.end_layer = ends[stage];
  return shard;
}

Result<std::unique_ptr<RankGroups>> RankGroups::Join(Communicator& all, const ModelConfig& config,
                                                     const StageWeights& weights,
                                                     const RankCounts& counts) {
  if (Status checked = CheckCounts(config, counts, all.size()); !checked) {
    return Unexpected(checked.error());
  }
  auto groups = std::unique_ptr<RankGroups>(new RankGroups());
  ModelShard shard = ShardOfRank(all.rank(), counts, weights);
  shard.expert_path = ChooseExpertPath(config, counts);
  Result<std::unique_ptr<Communicator>> stage = all.Split(shard.stage, shard.stage_rank());
  if (!stage) return Unexpected(stage.error());
  Result<std::unique_ptr<Communicator>> stages = all.Split(shard.stage_rank(), shard.stage);
  if (!stages) return Unexpected(stages.error());
  groups->stage_ = std::move(*stage);
  groups->stages_ = std::move(*stages);
  groups->ranks_ = {.shard = shard,
                    .all = &all,
                    .tensor = groups->stage_.get(),
                    .expert = groups->stage_.get(),
                    .stages = groups->stages_.get()};
  return groups;
}

}  // namespace fathom::distributed
