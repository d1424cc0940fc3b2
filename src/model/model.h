// Model: DeepSeek-V4 from a checkpoint directory, tokens in, logits out.
//
//   Result<std::unique_ptr<Model>> model = Model::Load(directory, *backend, options);
//   batch.Add(sequence, position, tokens);
//   Status ran = (*model)->Forward(batch);            // any chunk of any sequences
//   Result<Matrix<const float>> logits = (*model)->Logits(rows);
//
// The token sequence -> logits function does not depend on how the tokens were cut into batches, on
// what shared a batch, on threads or instruction sets (docs/numerics.md).
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
#include "model/draft/draft_costs.h"
#include "model/draft/drafter.h"
#include "model/layer_observer.h"
#include "model/memory_plan.h"
#include "model/model_parts.h"
#include "model/pass_progress.h"
#include "model/routing_observer.h"
#include "model/sequence_failure.h"
#include "sampling/sampling_row.h"

namespace fathom {

struct ModelOptions {
  std::int64_t max_sequences = 1;       // slots 0 ... max_sequences - 1
  std::int64_t max_context = 4096;      // positions per sequence
  std::int64_t max_batch_tokens = 256;  // rows of one Forward; raised to a block of the drafter
  std::int64_t max_logit_rows = 16;     // rows of one Logits call
  // Rows of one Forward beside a pass that BeginPass has begun; 0: BeginPass is not called. Only
  // where each rank has all layers. Raised to a block of the drafter.
  std::int64_t pause_tokens = 0;
  bool with_draft = false;  // load the drafter; an error if the checkpoint has none
  // Memory of all caches together; 0: as much as all sequences can need at once.
  std::int64_t kv_memory_bytes = 0;
  WeightMemory weights;  // whether Load reads them, and where to
  // Chooses who computes experts that do not fit into the memory of a device.
  HostExpertChoice host_experts = HostExpertChoice::kAuto;
  int n_load_threads = 1;  // that Load uses
  // Makes what differs between one process and many; empty: MakeLocalParts.
  MakeModelParts parts{};
};

// Called with the share of the weights read so far, 0 to 1, if Load is to read them. From the
// loading thread.
using LoadProgress = std::function<void(double share)>;

// The result of Model::FinishTokens: views of the model's memory.
struct ChosenTokens {
  std::span<const TokenChoice> choices;  // [rows]
  Matrix<const float> logits;            // [rows, vocab_size], of the rows that were asked for
};

// Owns the mapped checkpoint, the caches and the workspace, all allocated by Load; uses the
// backend, which must outlive it. One thread at a time. With several ranks, all call the same
// functions with the same arguments in the same order, and each call may fail because another rank
// failed or cannot be reached.
class Model {
 public:
  static Result<std::unique_ptr<Model>> Load(const std::filesystem::path& directory,
                                             Backend& backend, const ModelOptions& options,
                                             const LoadProgress& progress = {});
  // Loads from files that are open already, and their config.json.
  static Result<std::unique_ptr<Model>> Load(ModelConfig config, Checkpoint checkpoint,
                                             Backend& backend, const ModelOptions& options,
                                             const LoadProgress& progress = {});
  ~Model();

  const ModelConfig& config() const;
  const ModelOptions& options() const;
  // Warnings for the user about this checkpoint: a contradicting expert_dtype.
  std::span<const std::string> warnings() const;
  // Where the weights lie; nullptr: the backend has no memory of its own.
  const MemoryPlan* memory_plan() const;
  // Bytes of weights (mapped; those of this process), of caches and of workspace (both allocated).
  std::int64_t weight_bytes() const;
  std::int64_t cache_bytes() const;
  std::int64_t workspace_bytes() const;
  // Returns the bytes of weights in memory now: pages of the files, or copies in huge pages.
  std::int64_t resident_weight_bytes() const;

  // The checks and errors of Forward, and room in the caches; Forward with the same batch finds it.
  Status Prepare(const Batch& batch);
  // Runs the batch through all layers and stores its keys and compressed rows. Positions of a
  // sequence must continue where it stands, or overwrite its newest at most kRollbackTokens (of all
  // it has computed, those taken back included); position 0 starts it anew. Errors, with nothing
  // changed: a token id, position, sequence or batch size out of range. The batch's sequences must
  // begin at position 0 again after the others. kOutOfMemory: the caches have too few free blocks.
  // kInvalidData: the scales of an expert that is used for the first time are no numbers (the
  // message names the tensor; Load checks all others). kIo: an expert cannot be read.
  Status Forward(const Batch& batch);
  // Runs the batch even if some of its sequences need experts that cannot be read, and replaces
  // `failed` by these sequences: they must begin at position 0 again, and their rows have no
  // logits. An error if all have failed in one process; with several ranks, all may be in `failed`,
  // and the same on all ranks. Other errors are those of Forward.
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed);

  // Forward in pieces: BeginPass, then ContinuePass, which runs a layer, until it has ended.
  // Between the calls all others may be made for other sequences, with batches of at most
  // pause_tokens; what refers to the last Forward must not reach over a call of ContinuePass.
  // `batch` stays as it is until the pass has ended. The bits are those of Forward. Errors of
  // BeginPass: those of Prepare; of both: those of Forward, and the pass has ended.
  // With should_stop, ContinuePass fails with kResourceExhausted soon after it has turned true:
  // between experts that are read from disk. Several ranks, which must agree, have none.
  Status BeginPass(const Batch& batch, ShouldStop should_stop = {});
  Result<PassProgress> ContinuePass(std::vector<SequenceFailure>& failed);
  // Ends a pass, if one has begun; its sequences must begin at position 0 again.
  void StopPass();

  // Logits [rows.size(), vocab_size] of those rows of the last Forward; at most max_logit_rows.
  // Valid until the next call. With several ranks, rank 0 gets them and the others get no rows.
  Result<Matrix<const float>> Logits(std::span<const std::int32_t> rows);
  // Logits in two parts, between which rank 0 may run the next steps while the pipeline stages
  // behind it compute this one: Forward, then StartLogits into a slot (0 to most_in_flight() - 1)
  // that is free until FinishLogits. The other ranks call Logits where rank 0 calls StartLogits.
  // Drafter::Propose needs slot 0 to be free. After an error of StartLogits, or of Logits, the
  // sequences of the last Forward must begin at position 0 again, as after an error of Forward.
  Status StartLogits(std::span<const std::int32_t> rows, int slot);
  Result<Matrix<const float>> FinishLogits(int slot);
  // True if StartTokens may be called: the backend chooses tokens, and this process computes all.
  bool ChoosesTokens() const;
  // StartLogits and FinishLogits for a backend that chooses the tokens itself, so that the logits
  // need not reach the host: sampling[i] chooses from those of rows[i]. The host gets the logits of
  // rows[i] for each i of `with_logits` alone. What sampling[i] refers to is read before
  // StartTokens returns; the result is valid until the next call.
  Status StartTokens(std::span<const std::int32_t> rows, std::span<const SamplingRow> sampling,
                     std::span<const std::int32_t> with_logits);
  Result<ChosenTokens> FinishTokens();
  // Steps whose logits can be awaited at once: as many as there are pipeline stages.
  int most_in_flight() const;

  // Proposes tokens; nullptr: loaded without. Its calls count as calls of the model.
  Drafter* drafter();
  // Returns the costs of its drafts by bytes; unknown where this process has none.
  const DraftCosts& draft_costs() const;
  // Tells draft_costs() that reading a byte of a routed expert takes so many times as long as
  // reading a byte of other weights, as of experts that are read from disk. Once, after Load.
  void SetExpertTime(double times);

  // The state of `sequence` as after n_tokens (1 to the context) unknown tokens: random keys and
  // compressed rows (kv_cache/random_fill.h), the same for the same seed. For measurements at a
  // depth that would take minutes to compute; the next position is n_tokens. Errors, with nothing
  // changed: a sequence or number of tokens out of range.
  Status FillCache(std::int32_t sequence, std::int64_t n_tokens, std::uint64_t seed);

  // Calls `observer` with the experts of every layer from the next step on; an empty one is not
  // called.
  void ObserveRouting(RoutingObserver observer);

  // Calls `observer` before every layer of a step from the next one on, and behind the last; an
  // empty one is not called.
  void ObserveLayers(LayerObserver observer);

  // The cached state of the sequences; its blocks can be shared and counted.
  SequenceCache& cache();

  ExpertStore& expert_store();

  // Runs one layer alone, for comparison with the layer goldens: streams [t, 4 * hidden] in place.
  Status RunLayer(std::int64_t layer, const Batch& batch, Matrix<Bf16> streams);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Newest positions of a sequence that may be computed again with other tokens (rejected drafts).
inline constexpr std::int64_t kRollbackTokens = 8;

}  // namespace fathom
