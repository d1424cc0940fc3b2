// ModelRanks: what one rank has of a model, and whom it asks for the rest (spec/parallel.md).
//
//   stages            layers [first_layer, end_layer); the residual streams travel from stage to
//                     stage. The first embeds, the last has the head and the MTP block.
//   tensor ranks      of a stage: query heads with their sinks and output groups, the columns of
//                     the shared expert, the vocabulary. All have the same tokens, and compute the
//                     rest (keys, compressors, indexer, router, hyper-connections) alike.
//   expert ranks      of a stage: the routed experts.
#ifndef FATHOM_MODEL_MODEL_RANKS_H_
#define FATHOM_MODEL_MODEL_RANKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "parallel/communicator.h"

namespace fathom {

// The same members on every rank, but for the ranks in their groups.
struct ModelShare {
  int tensor_rank = 0;
  int n_tensor = 1;
  int expert_rank = 0;
  int n_expert = 1;
  std::int64_t n_redundant_experts = 0;  // physical experts of a block beyond its logical ones
  int stage = 0;
  int n_stages = 1;
  std::int64_t first_layer = 0;
  std::int64_t end_layer = 0;

  bool is_first_stage() const { return stage == 0; }
  bool is_last_stage() const { return stage + 1 == n_stages; }
  bool is_whole() const { return n_tensor == 1 && n_expert == 1 && n_stages == 1; }
};

// The communicators outlive the model.
struct ModelRanks {
  ModelShare share;
  Communicator* all = nullptr;     // rank 0 gets the logits
  Communicator* tensor = nullptr;  // of this stage, by tensor_rank
  Communicator* expert = nullptr;  // of this stage, by expert_rank
  Communicator* stages = nullptr;  // the same tensor rank of all stages, by stage
};

// The share of a model that is not shared.
ModelShare WholeModel(const ModelConfig& config);

// How many ranks there are of what. n_tensor * n_stages ranks are one model.
struct RankCounts {
  int n_tensor = 1;
  int n_stages = 1;
  bool expert_parallel = false;  // the ranks of a stage are its expert ranks too
  std::int64_t n_redundant_experts = 0;
};

// Bytes of every layer's weights, of what the first stage has besides and of what the last has.
struct StageWeights {
  std::vector<std::int64_t> layers;
  std::int64_t first = 0;
  std::int64_t last = 0;
};
StageWeights WeighStages(const Checkpoint& checkpoint, const ModelConfig& config);

// What rank `rank` of all has: neighbours are tensor ranks of a stage. Layers are cut so that
// the heaviest stage is as light as possible. The counts have been checked (CheckCounts).
ModelShare ShareOfRank(int rank, const RankCounts& counts, const StageWeights& weights);

// Whether a model of this configuration can be cut so, by n_ranks ranks. The error names the option
// to change, what it has to divide and what was found.
Status CheckCounts(const ModelConfig& config, const RankCounts& counts, int n_ranks);

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

  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> stages_;
  ModelRanks ranks_;
};

}  // namespace fathom

#endif  // FATHOM_MODEL_MODEL_RANKS_H_
