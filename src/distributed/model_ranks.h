// ModelRanks: one rank's shard of a model, and the communicators to the other ranks
// (docs/spec/parallel.md).
//
//   stages        layers [first_layer, end_layer). Each stage sends the residual streams to the
//                 next. The first stage embeds; the last has the head and the draft block.
//   tensor ranks  of a stage divide the query heads with their sinks and output groups, the columns
//                 of the shared expert, and the vocabulary. All have the same tokens, choose
//                 compressed rows together (distributed/index_partition.h) and compute the rest
//                 (keys, compressors, router, hyper-connections) alike. They cache the same rows,
//                 or divide the compressed rows of layers of ratio 4 (distributed/row_gather.h).
//   expert ranks  of a stage divide the routed experts (experts/exchange/expert_exchange.h).
//   data ranks    of a stage divide the sequences, instead of tensor ranks. Each runs attention and
//                 everything else outside the routed experts for its own sequences, which no other
//                 rank caches; they divide the experts and the vocabulary of the head.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"
#include "kernels/layer_cache.h"
#include "kv_cache/data_ranks.h"
#include "kv_cache/layout.h"
#include "model/tensor_parallel.h"

namespace fathom::distributed {

// The path of tokens to the experts of other ranks, and of the outputs back.
enum class ExpertPath {
  kGather,  // all tokens and outputs to all ranks, before and after the products
  kFused,   // outputs only to the token's owner, while other products are computed
};

// Scores (of one head and one row) that dividing the choice of rows must save a rank
// (distributed/index_partition.h): eight threads compute as many in about the 50 us that a round of
// messages between processes takes.
inline constexpr std::int64_t kLeastIndexWork = 256 * 1024;

// Most rows of a gather (distributed/row_gather.h), unless one token needs more: 19 MB with V4.
inline constexpr std::int64_t kMostGatheredRows = 32 * 1024;

// Members have equal values on every rank, except the rank's number in each group.
struct ModelShard {
  int tensor_rank = 0;
  int n_tensor = 1;
  int expert_rank = 0;
  int n_expert = 1;
  std::int64_t n_redundant_experts = 0;  // physical experts of a block beyond its logical ones
  int stage = 0;
  int n_stages = 1;
  std::int64_t first_layer = 0;
  std::int64_t end_layer = 0;
  int data_rank = 0;
  int n_data = 1;  // if it is more than 1, n_tensor is 1
  ExpertPath expert_path = ExpertPath::kGather;
  bool decode_context_parallel = false;  // the tensor ranks divide the rows of layers of ratio 4
  std::int64_t least_index_work = kLeastIndexWork;
  std::int64_t most_gathered_rows = kMostGatheredRows;

  int n_stage_ranks() const { return n_tensor * n_data; }
  int stage_rank() const { return data_rank * n_tensor + tensor_rank; }
  // The compressed rows that this rank caches in layers of ratio 4.
  CacheShard RowsOfRatio4() const {
    return decode_context_parallel ? CacheShard{.rank = tensor_rank, .n = n_tensor} : CacheShard{};
  }
  DataRanks data() const { return {.rank = data_rank, .n = n_data}; }
  bool is_first_stage() const { return stage == 0; }
  bool is_last_stage() const { return stage + 1 == n_stages; }
  bool is_whole() const { return n_tensor == 1 && n_expert == 1 && n_stages == 1; }
};

// The communicators must outlive the model.
struct ModelRanks {
  ModelShard shard;
  Communicator* all = nullptr;     // rank 0 gets the logits
  Communicator* tensor = nullptr;  // ranks of this stage, by stage_rank
  Communicator* expert = nullptr;  // ranks of this stage, by stage_rank
  Communicator* stages = nullptr;  // the same rank of all stages, by stage
};

// Returns the shard of a rank that has the whole model.
ModelShard WholeModel(const ModelConfig& config);

// The most steps whose logits a rank may await together: on the first stage, one for each stage.
inline int LogitSlots(const ModelShard& shard) {
  return shard.is_first_stage() ? shard.n_stages : 1;
}

// Returns the share of a rank.
Stage MakeStage(const ModelShard& shard);

// Returns the caches of a shard, given the caches of the whole model; before the ranks have agreed
// on a number of blocks (RankTensorParallel::ShardCache).
CacheShape ShardCache(CacheShape whole, const ModelShard& shard);

// Numbers of ranks; n_tensor * n_data * n_stages ranks make one model.
struct RankCounts {
  int n_tensor = 1;
  int n_stages = 1;
  bool expert_parallel = false;  // the ranks of a stage divide the experts
  std::int64_t n_redundant_experts = 0;
  int n_data = 1;                           // only with expert_parallel, and n_tensor = 1
  std::optional<ExpertPath> expert_path{};  // missing: fused where that is possible
  bool decode_context_parallel = false;     // only with n_tensor > 1
};

// Numbers of a layer's experts. Physical experts are the replicas of logical ones and are divided
// evenly: rank r holds [r * n_physical / n_ranks, (r + 1) * n_physical / n_ranks).
struct ExpertCounts {
  std::int64_t n_logical = 0;
  std::int64_t n_physical = 0;
  std::int64_t n_ranks = 1;
  std::int64_t n_groups = 1;  // groups of logical experts that are chosen together; V4 has one
  std::int64_t n_nodes = 1;   // groups of ranks near each other
};
ExpertCounts CountExperts(const ModelConfig& config, const ModelShard& shard);

// Error: counts that do not divide, with the option to change.
Status CheckCounts(const ExpertCounts& counts);

// Bytes of the weights of every layer, of the first stage alone and of the last stage alone.
struct StageWeights {
  std::vector<std::int64_t> layers;
  std::int64_t first = 0;
  std::int64_t last = 0;
};
StageWeights WeighStages(const Checkpoint& checkpoint, const ModelConfig& config);

// Returns the shard of one rank; consecutive ranks belong to a stage. Divides the layers so that
// the heaviest stage is as light as possible. The counts are valid (CheckCounts); expert_path is
// the requested one.
ModelShard ShardOfRank(int rank, const RankCounts& counts, const StageWeights& weights);

// Checks that n_ranks ranks can divide a model of this configuration by these counts. The error
// names the option to change, the number that it has to divide and the number found.
Status CheckCounts(const ModelConfig& config, const RankCounts& counts, int n_ranks);

// Returns the requested path, or fused where its requirements hold (expert parallelism; hidden and
// intermediate sizes that are multiples of 128).
ExpertPath ChooseExpertPath(const ModelConfig& config, const RankCounts& counts);

// Owns the communicators of one rank's groups; `all` must outlive this object.
class RankGroups {
 public:
  // Called by all ranks. Error: counts that do not fit the model, or a rank that is gone.
  static Result<std::unique_ptr<RankGroups>> Join(Communicator& all, const ModelConfig& config,
                                                  const StageWeights& weights,
                                                  const RankCounts& counts);

  const ModelRanks& ranks() const { return ranks_; }

 private:
  RankGroups() = default;

  std::unique_ptr<Communicator> stage_;
  std::unique_ptr<Communicator> stages_;
  ModelRanks ranks_;
};

}  // namespace fathom::distributed
