// LanguageModel: the model as the engine uses it. Tests replace it by a model without weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "kv_cache/disk_blocks.h"
#include "kv_cache/sequence_cache.h"
#include "model/batch.h"
#include "model/draft/draft_costs.h"
#include "model/model.h"
#include "model/pass_progress.h"
#include "model/sequence_failure.h"
#include "model/streaming_counts.h"

namespace fathom {

struct ModelLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_sequences = 1;
  std::int64_t max_context = 0;       // positions per sequence
  std::int64_t max_batch_tokens = 0;  // rows of one Forward
  std::int64_t max_logit_rows = 1;    // rows of one call of Logits
  std::int64_t rollback_tokens = 0;   // newest positions that may be computed again
  std::int64_t max_draft_depth = 0;   // tokens that the drafter can draft ahead; 0: no drafter
  int most_in_flight = 1;             // steps whose logits may be awaited simultaneously
  std::int64_t pause_tokens = 0;  // rows of a Forward during a pass in pieces; 0: no such passes
};

// One thread at a time. After kInvalidData (the weights have changed since they were loaded) and
// kUnavailable (other ranks are gone) the model can compute nothing any more.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual ModelLimits Limits() const = 0;
  // Returns the caches of the model's sequences.
  virtual SequenceCache& Cache() = 0;
  // Returns the costs of drafts as far as they are known without measurement.
  virtual DraftCosts CostsOfDrafts() const { return {}; }
  // Runs the batch and caches its positions. A sequence continues at its next position, or at most
  // rollback_tokens before it, or starts again at 0. After an error, either the sequences of the
  // batch are empty or nothing has changed.
  virtual Status Forward(const Batch& batch) = 0;
  // Like Forward, but a sequence whose weights cannot be read may fail alone: `failed` is replaced
  // by the list of such sequences. They are then empty, and the logits of their rows must not be
  // requested.
  virtual Status ForwardEach(const Batch& batch, std::vector<SequenceFailure>& failed) {
    failed.clear();
    return Forward(batch);
  }
  // Model::BeginPass, ContinuePass and StopPass, for a model whose pause_tokens is not 0. Sequences
  // fail as in ForwardEach.
  virtual Status BeginPass(const Batch& /*batch*/, ShouldStop /*should_stop*/) {
    return NoPieces();
  }
  virtual Result<PassProgress> ContinuePass(std::vector<SequenceFailure>& /*failed*/) {
    return NoPieces();
  }
  virtual void StopPass() {}
  // Computes logits [rows.size(), vocab_size] for rows of the last Forward; valid until the next
  // call. In two parts: between them other steps may run, whose logits use other slots (0 to
  // most_in_flight - 1). The drafter's streams are the streams of the last step.
  virtual Status StartLogits(std::span<const std::int32_t> rows, int slot) = 0;
  virtual Result<Matrix<const float>> FinishLogits(int slot) = 0;
  // Model::StartTokens and FinishTokens, for a model that ChoosesTokens, one step at a time. From
  // other models the caller gets logits and chooses the tokens itself.
  virtual bool ChoosesTokens() const { return false; }
  virtual Status StartTokens(std::span<const std::int32_t> /*rows*/,
                             std::span<const SamplingRow> /*sampling*/,
                             std::span<const std::int32_t> /*with_logits*/) {
    return NoTokens();
  }
  virtual Result<ChosenTokens> FinishTokens() { return NoTokens(); }
  // Drafter::Commit and Drafter::Propose, for a model whose max_draft_depth is not 0. `choose`
  // always gets the logits.
  virtual Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                                 StreamSource source) = 0;
  virtual Status ProposeDrafts(std::span<const DraftRequest> requests,
                               const ChooseDrafts& choose) = 0;
  // Drafter::ProposeTokens, for a model that ChoosesTokens.
  virtual Status ProposeTokens(std::span<const DraftRequest> /*requests*/,
                               const DraftSampling& /*sampling*/) {
    return NoTokens();
  }
  // ExpertStore::streaming.
  virtual std::optional<StreamingCounts> Streaming() const { return {}; }
  // Opens the store for blocks of the cache on disk, under keys that begin with `root`. The model
  // must outlive the store. `warn` and errors as in DiskTier::Open.
  virtual Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) {
    return DiskBlocks::Open(Cache(), options, root, std::move(warn));
  }

 private:
  static tl::unexpected<Error> NoPieces() {
    return MakeError(ErrorCode::kUnsupported,
                     "pass in pieces: expected a model that pauses, found one that does not");
  }
  static tl::unexpected<Error> NoTokens() {
    return MakeError(ErrorCode::kUnsupported,
                     "tokens of the model: expected a model that chooses tokens, found one that "
                     "gives logits");
  }
};

}  // namespace fathom
