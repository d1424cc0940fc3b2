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

#include "model/language_model.h"

namespace fathom {

class ForwardingModel : public LanguageModel {
 public:
  ModelLimits Limits() const override { return model().Limits(); }
  SequenceCache& cache() override { return model().cache(); }
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) override {
    return model().Forward(batch, failed);
  }
  Result<std::unique_ptr<LayeredPass>> BeginPass(const Batch& batch,
                                                 ShouldStop should_stop) override {
    return model().BeginPass(batch, std::move(should_stop));
  }
  Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int slot) override {
    return model().StartTokens(rows, std::move(describe), slot);
  }
  Result<ChosenTokens> FinishTokens(int slot) override { return model().FinishTokens(slot); }
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override {
    return model().CommitToDrafter(next, stream_rows, source);
  }
  Status ProposeDrafts(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                       const ChooseDrafts& choose) override {
    return model().ProposeDrafts(requests, describe, choose);
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
