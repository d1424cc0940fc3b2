// ForwardingModel: a model that is another one, but for the calls that a subclass overrides.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/language_model.h"

namespace fathom {

class ForwardingModel : public LanguageModel {
 public:
  ModelLimits Limits() const override { return model().Limits(); }
  SequenceCache& Cache() override { return model().Cache(); }
  Status Forward(const Batch& batch) override { return model().Forward(batch); }
  Status StartLogits(std::span<const std::int32_t> rows, int slot) override {
    return model().StartLogits(rows, slot);
  }
  Result<Matrix<const float>> FinishLogits(int slot) override { return model().FinishLogits(slot); }
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override {
    return model().CommitToDrafter(next, stream_rows, source);
  }
  Status ProposeDrafts(std::span<const DraftRequest> requests,
                       const ChooseDrafts& choose) override {
    return model().ProposeDrafts(requests, choose);
  }
  Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) override {
    return model().OpenDisk(options, root, std::move(warn));
  }

 protected:
  // The model that answers.
  virtual LanguageModel& model() const = 0;
};

}  // namespace fathom
