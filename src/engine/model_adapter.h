// ModelAdapter: wraps a Model as the engine's LanguageModel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/language_model.h"
#include "model/model.h"

namespace fathom {

// Does not own the model, which must outlive the adapter.
class ModelAdapter : public LanguageModel {
 public:
  explicit ModelAdapter(Model& model) : model_(model) {}

  ModelLimits Limits() const override {
    return {.vocab_size = model_.config().vocab_size,
            .max_sequences = model_.options().max_sequences,
            .max_context = model_.options().max_context,
            .max_batch_tokens = model_.options().max_batch_tokens,
            .max_logit_rows = model_.options().max_logit_rows,
            .rollback_tokens = kRollbackTokens,
            .max_draft_depth = model_.drafter() == nullptr ? 0 : model_.drafter()->max_depth(),
            .most_in_flight = model_.most_in_flight(),
            .pause_tokens = model_.options().pause_tokens};
  }
  SequenceCache& Cache() override { return model_.cache(); }
  DraftCosts CostsOfDrafts() const override { return model_.draft_costs(); }
  Status Forward(const Batch& batch) override { return model_.Forward(batch); }
  Status ForwardEach(const Batch& batch, std::vector<SequenceFailure>& failed) override {
    return model_.Forward(batch, failed);
  }
  Status BeginPass(const Batch& batch, ShouldStop should_stop) override {
    return model_.BeginPass(batch, std::move(should_stop));
  }
  Result<PassProgress> ContinuePass(std::vector<SequenceFailure>& failed) override {
    return model_.ContinuePass(failed);
  }
  void StopPass() override { model_.StopPass(); }
  Status StartLogits(std::span<const std::int32_t> rows, int slot) override {
    return model_.StartLogits(rows, slot);
  }
  Result<Matrix<const float>> FinishLogits(int slot) override { return model_.FinishLogits(slot); }
  bool ChoosesTokens() const override { return model_.ChoosesTokens(); }
  Status StartTokens(std::span<const std::int32_t> rows, std::span<const SamplingRow> sampling,
                     std::span<const std::int32_t> with_logits) override {
    return model_.StartTokens(rows, sampling, with_logits);
  }
  Result<ChosenTokens> FinishTokens() override { return model_.FinishTokens(); }
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override {
    return model_.drafter()->Commit(next, stream_rows, source);
  }
  Status ProposeDrafts(std::span<const DraftRequest> requests,
                       const ChooseDrafts& choose) override {
    return model_.drafter()->Propose(requests, choose);
  }
  Status ProposeTokens(std::span<const DraftRequest> requests,
                       const DraftSampling& sampling) override {
    return model_.drafter()->ProposeTokens(requests, sampling);
  }

  std::optional<StreamingCounts> Streaming() const override {
    return model_.expert_store().streaming();
  }

 private:
  Model& model_;
};

}  // namespace fathom
