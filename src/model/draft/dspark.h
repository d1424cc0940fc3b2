// The DSpark drafter (docs/spec/mtp.md 2): blocks that draft several tokens in one pass.
//
// Every position has a key in every stage, which depends only on the streams of some main layers.
// Tap stores the keys of prompts and of verified drafts. In steps of single tokens without drafts,
// the keys would cost more than all other work for drafts, so Tap stores only the means of the
// streams of the newest positions (a window), and Propose computes their keys when they are needed.
// Keys of older positions stay missing: sequences that begin after these positions have a lower
// acceptance.
//
// A block of rows, one per draft, then attends to these keys and to itself; a bias
// that depends on the token before each draft is added as the drafts are chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "model/block.h"
#include "model/draft/drafter.h"
#include "model/draft/drafters.h"
#include "model/draft/dspark_trace.h"
#include "model/token_position.h"

namespace fathom::model {

extern const DrafterKind kDSparkDrafter;

struct DraftWeights;

class DSparkDrafter : public Drafter {
 public:
  explicit DSparkDrafter(ModelState& model);

  int max_depth() const override;
  void Tap(std::int64_t layer, const BatchView& whole, const Step& step) override;
  Status Prepare(const Batch& next, std::span<const std::int32_t> stream_rows,
                 StreamSource source) override;
  Status Commit(const Batch& next, std::span<const std::int32_t> stream_rows,
                StreamSource source) override;
  Status Propose(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                 const ChooseDrafts& choose) override;

  // Records the values that later steps compute; null: stops. On the host: slow, for one process.
  void set_trace(DSparkTrace* trace) override { trace_ = trace; }

  // For comparison with goldens. Both take matrices of the host and write the caches of the
  // positions that they compute.
  // features [t, targets * hidden]: stores the keys of the batch's positions, which are cached.
  Status StoreKeys(const Batch& batch, Matrix<const Bf16> features);
  // Runs one stage on the streams [t, 4 * hidden] of blocks, in place. The blocks begin at the ends
  // of their sequences.
  Status RunStage(std::int64_t stage, const Batch& blocks, Matrix<Bf16> streams);

 private:
  // A request of Propose whose drafts are being chosen.
  struct Drafting {
    std::int32_t request = 0;     // index of the request
    std::int32_t block_row = 0;   // first row of its block
    std::int32_t logits_row = 0;  // logits row of its first draft
    std::int64_t n_left = 0;
    Token token = kNoDraft;  // the last token: the anchor, then drafts
  };
  const DraftWeights& weights() const;
  const DSparkConfig& config() const;
  void AppendKeys(const Step& step);
  Bf16* Features(std::int32_t sequence, std::int64_t position) const;
  void KeepFeatures(const BatchView& whole, const Step& step, bool stores_keys);
  Status StoreDeferredKeys();
  Status StoreKeptKeys(const BatchView& positions);
  Status DraftTile(const DescribeDrafts& describe, const ChooseDrafts& choose);
  Status RunBlocks();
  Status ComputeLogits();
  void AddBias(std::int64_t depth, Matrix<float> logits);
  void ComputeConfidences(std::int64_t depth);
  Status Choose(std::int64_t depth, const DescribeDrafts& describe, const ChooseDrafts& choose);

  // The positions [first, end) of a sequence whose features are stored and whose keys may be
  // missing.
  struct Deferred {
    std::int64_t n_starts = 0;  // SequenceState: the start to which the features belong
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  ModelState& model_;
  DSparkTrace* trace_ = nullptr;
  std::vector<Deferred> deferred_;        // by sequence
  std::vector<TokenPosition> committed_;  // positions of the last Commit
  std::vector<Token> anchors_;            // the tokens after these positions
  // Scratch of one tile of Propose.
  Batch blocks_;
  std::vector<Token> block_tokens_;
  Batch late_;  // positions whose keys are stored late
  std::vector<Token> late_tokens_;
  std::vector<Drafting> drafting_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> indices_;
  std::vector<Token> tokens_;
  std::vector<float> confidences_;
};

}  // namespace fathom::model
