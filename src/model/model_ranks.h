// ModelRanks: what one rank has of a model, and whom it asks for the rest (docs/spec/parallel.md).
//
//   stages            layers [first_layer, end_layer); the residual streams travel from stage to
//                     stage. The first embeds, the last has the head and the MTP block.
//   tensor ranks      of a stage: query heads with their sinks and output groups, the columns of
//                     the shared expert, the vocabulary. All have the same tokens, share the choice
//                     of compressed rows (model/index_partition.h), and compute the rest (keys,
//                     compressors, router, hyper-connections) alike. They cache the same, or divide
//                     the compressed rows of layers of ratio 4 (model/row_gather.h).
//   expert ranks      of a stage: the routed experts (model/expert_exchange.h).
//   data ranks        of a stage: sequences, instead of tensor ranks. Each runs attention and all
//                     else outside the routed experts for its own sequences, which no other rank
//                     caches; they share the experts, and the vocabulary of the head.
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

namespace fathom {

// How the outputs of the routed experts come to those who need them.
enum class ExpertPath {
  kGather,  // everything to everyone, before and after the products
  kFused,   // to the token's owner alone, while other products are computed
};

// Scores of a head and a row that a rank must be spared before the choice of rows is shared
// (model/index_partition.h): eight threads compute so many in about the 50 us that a round of
// messages between processes takes.
inline constexpr std::int64_t kLeastIndexWork = 256 * 1024;

// Rows of a gathering (model/row_gather.h) at most, or those of one token: 19 MB of V4.
inline constexpr std::int64_t kMostGatheredRows = 32 * 1024;

// The same members on every rank, but for the ranks in their groups.
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
  int n_data = 1;  // n_tensor is 1 if it is more
  ExpertPath expert_path = ExpertPath::kGather;
  bool decode_context_parallel = false;  // the tensor ranks divide the rows of layers of ratio 4
  std::int64_t least_index_work = kLeastIndexWork;
  std::int64_t most_gathered_rows = kMostGatheredRows;

  // Of a stage.
  int n_stage_ranks() const { return n_tensor * n_data; }
  int stage_rank() const { return data_rank * n_tensor + tensor_rank; }
  // The compressed rows that this rank caches in layers of ratio 4.
  CacheShard RowsOfRatio4() const {
    return decode_context_parallel ? CacheShard{.rank = tensor_rank, .n = n_tensor} : CacheShard{};
  }
  // Who runs which sequence.
  DataRanks data() const { return {.rank = data_rank, .n = n_data}; }
  bool is_first_stage() const { return stage == 0; }
  bool is_last_stage() const { return stage + 1 == n_stages; }
  bool is_whole() const { return n_tensor == 1 && n_expert == 1 && n_stages == 1; }
};

// The communicators outlive the model.
struct ModelRanks {
  ModelShard share;
  Communicator* all = nullptr;     // rank 0 gets the logits
  Communicator* tensor = nullptr;  // of this stage, by stage_rank
  Communicator* expert = nullptr;  // of this stage, by stage_rank
  Communicator* stages = nullptr;  // the same rank of all stages, by stage
};

// The share of a model that is not shared.
ModelShard WholeModel(const ModelConfig& config);

// How many ranks there are of what. n_tensor * n_data * n_stages ranks are one model.
struct RankCounts {
  int n_tensor = 1;
  int n_stages = 1;
  bool expert_parallel = false;  // the ranks of a stage are its expert ranks too
  std::int64_t n_redundant_experts = 0;
  int n_data = 1;                           // only with expert_parallel, and n_tensor = 1
  std::optional<ExpertPath> expert_path{};  // missing: fused where that is possible
  bool decode_context_parallel = false;     // only with n_tensor > 1
};

// Bytes of every layer's weights, of what the first stage has besides and of what the last has.
struct StageWeights {
  std::vector<std::int64_t> layers;
  std::int64_t first = 0;
  std::int64_t last = 0;
};
StageWeights WeighStages(const Checkpoint& checkpoint, const ModelConfig& config);

// What rank `rank` of all has: neighbours are ranks of a stage. Layers are cut so that the heaviest
// stage is as light as possible. The counts have been checked (CheckCounts); expert_path is the one
// that was asked for.
ModelShard ShareOfRank(int rank, const RankCounts& counts, const StageWeights& weights);

// Whether a model of this configuration can be cut so, by n_ranks ranks. The error names the option
// to change, what it has to divide and what was found.
Status CheckCounts(const ModelConfig& config, const RankCounts& counts, int n_ranks);

// The path that is taken: the one asked for, or fused where its requirements hold (expert
// parallelism; hidden and intermediate sizes that are multiples of 128).
ExpertPath PathOf(const ModelConfig& config, const RankCounts& counts);

// The groups of one rank. Owns their communicators; `all` outlives it.
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

}  // namespace fathom
