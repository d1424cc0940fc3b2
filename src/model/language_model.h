// LanguageModel: the model as the engine uses it: Model, the leader of several ranks
// (engine/ranks/rank_leader.h), and in tests a model without weights.
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
#include "model/draft/drafter.h"
#include "model/pass_progress.h"
#include "model/sequence_failure.h"
#include "model/streaming_counts.h"
#include "model/token_choices.h"

namespace fathom::model {

struct ModelLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_sequences = 1;
  std::int64_t max_context = 0;       // positions per sequence
  std::int64_t max_batch_tokens = 0;  // rows of one Forward
  std::int64_t max_logit_rows = 1;    // rows of one call of StartTokens
  std::int64_t rollback_tokens = 0;   // newest positions that may be computed again
  std::int64_t max_draft_depth = 0;   // tokens that the drafter can draft ahead; 0: no drafter
  DraftCosts draft_costs{};           // as far as they are known without measurement
  int most_in_flight = 1;             // steps whose tokens may be awaited simultaneously
  std::int64_t pause_tokens = 0;  // rows of a Forward during a pass in pieces; 0: no such passes
};

// One thread at a time. After kInvalidData (the weights have changed since they were loaded) and
// kUnavailable (other ranks are gone) the model can compute nothing any more.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual ModelLimits Limits() const = 0;
  // Returns the cached state of the sequences; its blocks can be shared and counted.
  virtual SequenceCache& cache() = 0;
  // Runs the batch and caches its positions. A sequence continues at its next position, or at most
  // rollback_tokens before it, or starts again at 0. Sequences whose weights cannot be read may
  // fail alone: `failed` is replaced by the list of such sequences. They are then empty, and no
  // tokens may be requested for their rows. After an error, either the sequences of the batch are
  // empty or nothing has changed.
  virtual Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) = 0;
  // Begins a Forward that runs a layer at a time, for a model whose pause_tokens is not 0; one pass
  // at a time. Between its layers, all calls may be made for other sequences, with batches of at
  // most pause_tokens; a call that refers to the last Forward must not be separated from it by a
  // layer. `batch` must not change until the pass has ended. With should_stop, a layer fails with
  // kResourceExhausted soon after should_stop returns true: between experts that are read from
  // disk. Several ranks, which must agree, do not call it.
  virtual Result<std::unique_ptr<LayeredPass>> BeginPass(const Batch& /*batch*/,
                                                         ShouldStop /*should_stop*/) {
    return MakeError(ErrorCode::kUnsupported,
                     "pass in pieces: expected a model that pauses, found one that does not");
  }
  // Choose tokens from rows of the last Forward, at most max_logit_rows (TokenChoices). In two
  // parts: between them other steps may run, which use other slots (0 to most_in_flight - 1). The
  // drafter needs slot 0 to be free, and its streams are the streams of the last step.
  virtual Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe,
                             int slot) = 0;
  virtual Result<ChosenTokens> FinishTokens(int slot) = 0;
  // Drafter::Commit and Drafter::Propose, for a model whose max_draft_depth is not 0.
  virtual Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                                 StreamSource source) = 0;
  virtual Status ProposeDrafts(std::span<const DraftRequest> requests,
                               const DescribeDrafts& describe, const ChooseDrafts& choose) = 0;
  // ExpertStore::streaming.
  virtual std::optional<StreamingCounts> Streaming() const { return {}; }
  // Opens the store for blocks of the cache on disk, under keys that begin with `root`. The model
  // must outlive the store. `warn` and errors as in DiskTier::Open.
  virtual Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) {
    return DiskBlocks::Open(cache(), options, root, std::move(warn));
  }
};

}  // namespace fathom::model
