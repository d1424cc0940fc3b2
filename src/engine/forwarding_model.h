// ForwardingModel: forwards every call to another model, except the calls that a subclass
// overrides.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/language_model.h"

namespace fathom {

class ForwardingModel : public LanguageModel {
 public:
  ModelLimits Limits() const override { return model().Limits(); }
  SequenceCache& Cache() override { return model().Cache(); }
  DraftCosts CostsOfDrafts() const override { return model().CostsOfDrafts(); }
  Status Forward(const Batch& batch) override { return model().Forward(batch); }
  Status ForwardEach(const Batch& batch, std::vector<SequenceFailure>& failed) override {
    return model().ForwardEach(batch, failed);
  }
  Status BeginPass(const Batch& batch, ShouldStop should_stop) override {
    return model().BeginPass(batch, std::move(should_stop));
  }
  Result<PassProgress> ContinuePass(std::vector<SequenceFailure>& failed) override {
    return model().ContinuePass(failed);
  }
  void StopPass() override { model().StopPass(); }
  Status StartLogits(std::span<const std::int32_t> rows, int slot) override {
    return model().StartLogits(rows, slot);
  }
  Result<Matrix<const float>> FinishLogits(int slot) override { return model().FinishLogits(slot); }
  bool ChoosesTokens() const override { return model().ChoosesTokens(); }
  Status StartTokens(std::span<const std::int32_t> rows, std::span<const SamplingRow> sampling,
                     std::span<const std::int32_t> with_logits) override {
    return model().StartTokens(rows, sampling, with_logits);
  }
  Result<ChosenTokens> FinishTokens() override { return model().FinishTokens(); }
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override {
    return model().CommitToDrafter(next, stream_rows, source);
  }
  Status ProposeDrafts(std::span<const DraftRequest> requests,
                       const ChooseDrafts& choose) override {
    return model().ProposeDrafts(requests, choose);
  }
  Status ProposeTokens(std::span<const DraftRequest> requests,
                       const DraftSampling& sampling) override {
    return model().ProposeTokens(requests, sampling);
  }
  std::optional<StreamingCounts> Streaming() const override { return model().Streaming(); }
  Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) override {
    return model().OpenDisk(options, root, std::move(warn));
  }

 protected:
  // Returns the model to which calls are forwarded.
  virtual LanguageModel& model() const = 0;
};

}  // namespace fathom
