// Model: DeepSeek-V4 from a checkpoint directory, tokens in, logits out.
//
//   Result<std::unique_ptr<Model>> model = Model::Load(directory, *backend, options);
//   batch.Add(sequence, position, tokens);
//   Status ran = (*model)->Forward(batch);            // any chunk of any sequences
//   Result<Matrix<const float>> logits = (*model)->Logits(rows);
//
// The function from a token sequence to logits does not depend on how the tokens are divided into
// batches, on other sequences in a batch, on threads or instruction sets (docs/numerics.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_memory.h"
#include "kernels/backend.h"
#include "kv_cache/sequence_cache.h"
#include "model/batch.h"
#include "model/language_model.h"
#include "model/layer_observer.h"
#include "model/memory_plan.h"
#include "model/model_parts.h"
#include "model/pass_progress.h"
#include "model/routing_observer.h"
#include "model/sequence_failure.h"

namespace fathom::model {

struct ModelOptions {
  std::int64_t max_sequences = 1;       // slots 0 ... max_sequences - 1
  std::int64_t max_context = 4096;      // positions per sequence
  std::int64_t max_batch_tokens = 256;  // rows of one Forward; raised to a block of the drafter
  std::int64_t max_logit_rows = 16;     // rows of one Logits call
  // Rows of one Forward while a pass of BeginPass is paused; 0: BeginPass is not called. Only where
  // each rank has all layers. Raised to a block of the drafter.
  std::int64_t pause_tokens = 0;
  bool with_draft = false;  // load the drafter; an error if the checkpoint has none
  // Memory of all caches together; 0: as much as all sequences can need at the same time.
  std::int64_t kv_memory_bytes = 0;
  WeightMemory weights;  // whether Load reads them, and their destination
  // Chooses whether device or host computes experts that do not fit into the device's memory.
  HostExpertChoice host_experts = HostExpertChoice::kAuto;
  int n_load_threads = 1;  // threads of Load
  // Makes the parts that differ between one process and many; empty: MakeLocalParts.
  MakeModelParts parts{};
};

// Called with the share of the weights read so far, 0 to 1, if Load reads them, on its thread.
using LoadProgress = std::function<void(double share)>;

// Owns the mapped checkpoint, the caches and the workspace, all allocated by Load; uses the
// backend, which must outlive it. One thread at a time. With several ranks, all call the same
// functions with the same arguments in the same order, and each call may fail because another rank
// failed or cannot be reached.
class Model final : public LanguageModel {
 public:
  static Result<std::unique_ptr<Model>> Load(const std::filesystem::path& directory,
                                             Backend& backend, const ModelOptions& options,
                                             const LoadProgress& progress = {});
  // Loads from files that are already open, and their config.json.
  static Result<std::unique_ptr<Model>> Load(ModelConfig config, Checkpoint checkpoint,
                                             Backend& backend, const ModelOptions& options,
                                             const LoadProgress& progress = {});
  ~Model() override;

  ModelLimits Limits() const override;
  const ModelConfig& config() const;
  const ModelOptions& options() const;
  // Returns warnings for the user about this checkpoint: a contradicting expert_dtype.
  std::span<const std::string> warnings() const;
  // Returns the places of the weights; nullptr: the backend has no memory of its own.
  const MemoryPlan* memory_plan() const;
  // Return the bytes of weights (mapped; of this process), of caches and of workspace (both
  // allocated).
  std::int64_t weight_bytes() const;
  std::int64_t cache_bytes() const;
  std::int64_t workspace_bytes() const;
  // Returns the bytes of weights in memory now: pages of the files, or copies in huge pages.
  std::int64_t resident_weight_bytes() const;

  // Makes the checks of Forward, with its errors, and room in the caches, for the same batch.
  Status Prepare(const Batch& batch);
  // Runs the batch through all layers and stores its keys and compressed rows. Positions of a
  // sequence must continue at its end, or overwrite at most its newest kRollbackTokens positions
  // (of all that it has computed, rolled back ones included); position 0 restarts it. Errors that
  // change nothing: a token id, position, sequence or batch size out of range. After other errors
  // the batch's sequences must begin at position 0 again. kOutOfMemory: the caches have too few
  // free blocks. kInvalidData: the scales of an expert that is used for the first time are no
  // numbers (the message names the tensor; Load checks all others). kIo: an expert cannot be read.
  Status Forward(const Batch& batch);
  // Runs the batch even if some of its sequences need experts that cannot be read, and replaces
  // `failed` by these sequences: they must begin at position 0 again, and their rows have no
  // logits. In one process, fails if all sequences have failed; with several ranks, all may be in
  // `failed`, which is the same on all ranks. Other errors: as Forward.
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) override;

  Result<std::unique_ptr<LayeredPass>> BeginPass(const Batch& batch,
                                                 ShouldStop should_stop = {}) override;

  // Returns logits [rows.size(), vocab_size] of some rows of the last Forward; at most
  // max_logit_rows. Valid until the next call. With several ranks, rank 0 gets them and the others
  // get no rows.
  Result<Matrix<const float>> Logits(std::span<const std::int32_t> rows);
  // With several pipeline stages, rank 0 may run the next steps between the two parts while the
  // later stages compute this one; the other ranks call Logits where rank 0 calls StartTokens.
  // After an error, the sequences of the last Forward must begin at position 0 again, as after an
  // error of Forward.
  Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int slot) override;
  Result<ChosenTokens> FinishTokens(int slot) override;
  // Returns how many steps may have tokens in flight: as many as there are pipeline stages.
  int most_in_flight() const;

  // Returns the drafter; nullptr: loaded without one. Its calls count as calls of the model.
  Drafter* drafter();
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override;
  Status ProposeDrafts(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                       const ChooseDrafts& choose) override;
  // Sets, for ModelLimits::draft_costs, how many times as long reading a byte of a routed expert
  // takes as reading a byte of other weights, as with experts read from disk. Call once, after
  // Load.
  void SetExpertTime(double times);

  // Sets the state of `sequence` to a state after n_tokens (1 to the context) unknown tokens:
  // random keys and compressed rows (kv_cache/random_fill.h), equal for equal seeds. For
  // measurements at a depth that would take minutes to compute; the next position is n_tokens.
  // Errors, which change nothing: a sequence or number of tokens out of range.
  Status FillCache(std::int32_t sequence, std::int64_t n_tokens, std::uint64_t seed);

  // Calls `observer` with the experts of every layer from the next step on; an empty one is not
  // called.
  void ObserveRouting(RoutingObserver observer);

  // Calls `observer` before every layer of a step from the next step on, and after the last layer;
  // an empty one is not called.
  void ObserveLayers(LayerObserver observer);

  SequenceCache& cache() override;

  ExpertStore& expert_store();
  std::optional<StreamingCounts> Streaming() const override;

  // Runs one layer alone, for comparison with the layer goldens: streams [t, 4 * hidden] in place.
  Status RunLayer(std::int64_t layer, const Batch& batch, Matrix<Bf16> streams);

 private:
  struct Impl;
  class LongPass;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Newest positions of a sequence that may be computed again with other tokens (rejected drafts).
inline constexpr std::int64_t kRollbackTokens = 8;

}  // namespace fathom::model
