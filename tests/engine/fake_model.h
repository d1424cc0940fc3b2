// A language model without weights: the logits after a token are a hash of the whole sequence up to
// the token. The model knows the sequence only from the caches, where it writes tokens in place of
// keys. So the logits show whether every token reached the model at its position, and whether every
// block, shared, copied, kept on disk or reused, has the right content.
//
// With several data ranks, each has its own cache in the model, which follows the decisions of the
// engine's cache as a following rank's cache does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/ranks/rank_calls.h"
#include "kernels/reference/reference_backend.h"
#include "model/draft/draft_rounds.h"
#include "model/language_model.h"

namespace fathom::testing {

struct FakeModelOptions {
  ModelLimits limits;
  std::int64_t sliding_window = 128;
  std::int64_t memory_bytes = 0;  // of each data rank
  int n_data = 1;
  // Share of positions at which the draft head says what the model will say.
  double draft_accuracy = 0.7;
};

class FakeModel final : public LanguageModel {
 public:
  explicit FakeModel(ModelLimits limits) : FakeModel(FakeModelOptions{.limits = limits}) {}
  explicit FakeModel(const FakeModelOptions& options);

  ModelLimits Limits() const override { return options_.limits; }
  SequenceCache& cache() override { return caches_.front(); }
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) override;
  // Each of the layers stores or reads a part of what the caches hold.
  Result<std::unique_ptr<LayeredPass>> BeginPass(const Batch& batch,
                                                 ShouldStop should_stop) override;
  Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int place) override;
  Result<ChosenTokens> FinishTokens(int place) override;
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override;
  Status ProposeDrafts(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                       const ChooseDrafts& choose) override;

  // The logits after these tokens, without any cache.
  static std::vector<float> Expected(std::span<const Token> tokens, std::int64_t vocab_size,
                                     std::int64_t sliding_window);

  // Before every layer of a pass in pieces.
  std::function<void()> on_layer;
  // The calls of the model so far.
  std::int64_t n_forwards = 0;  // passes in pieces included
  std::int64_t n_tokens = 0;
  int most_at_once = 0;        // steps whose logits were awaited
  std::int64_t most_rows = 0;  // of logits, of one step
  // The most tokens of a data rank in a step, over all steps: what they would have waited for.
  std::int64_t n_waited_tokens = 0;
  // Rows of the draft head's window that a draft saw and that did not hold the token they should.
  std::int64_t n_stale_draft_rows = 0;
  // The call of Forward that fails (0 is the first), the one that finds no memory, the number of
  // calls after which a logit is NaN.
  std::int64_t fail_at_forward = -1;
  ErrorCode fail_code = ErrorCode::kIo;
  std::int64_t throw_at_forward = -1;
  std::int64_t nan_at_forward = -1;
  std::chrono::microseconds forward_takes{0};  // at least

 private:
  // A segment on its data rank: the rank's cache, and the segment with the rank's own slot.
  struct Own {
    SequenceCache& cache;
    Segment segment;
  };
  Own OwnSegment(const Segment& segment);
  // A pass, and the hashes of its rows.
  struct Running {
    BatchView view;
    std::vector<std::uint64_t> row_hashes;
    std::int64_t layers_done = 0;
    bool fails = false;
  };
  class FakePass;
  Result<PassProgress> ContinuePass();
  void StopPass();
  Result<Running> Begin(const Batch& batch);
  Status RunLayer(Running& pass);
  Status Fail(const BatchView& view);
  void TellChanges(const BatchView& view);
  void StoreRows(const Own& own, const BatchView& view);
  void StoreTokens(const Own& own, const BatchView& view);
  std::uint64_t HashRow(const Own& own, const BatchView& view, std::int64_t position);
  Token TailToken(const CompressorCache& compressor, const Segment& segment, const BatchView& view,
                  std::int64_t position) const;
  // All tokens before `end` of a sequence, from its history rows and its tail.
  std::vector<Token> Recall(const Own& own, std::int64_t end);
  // Whether a pass of the draft head begins on streams of the model or on its own.
  enum class DraftPass { kCommit, kDraft };
  void RunDraftHead(const BatchView& view, DraftPass pass);
  // Where the logits of a step are until they are asked for again.
  struct Place {
    std::vector<float> logits;
    std::int64_t n_rows = -1;
    DescribeRows describe;
  };
  void FillPlace(std::span<const std::uint64_t> hashes, std::span<const std::int32_t> rows,
                 DescribeRows describe, int place);

  const FakeModelOptions options_;
  ReferenceBackend backend_;
  std::vector<SequenceCache> caches_;  // by data rank; the engine has the first
  std::optional<CacheShadow> shadow_;  // of the first, for the others
  ShouldStop should_stop_;             // of the pass in pieces
  std::optional<Running> paused_;
  std::vector<std::uint64_t> row_hashes_;
  std::vector<std::uint64_t> draft_hashes_;
  std::vector<TokenPosition> draft_positions_;
  DraftRounds rounds_;
  std::vector<Place> places_;
  TokenChooser chooser_;
  std::vector<TokenChoice> choices_;
};

}  // namespace fathom::testing
