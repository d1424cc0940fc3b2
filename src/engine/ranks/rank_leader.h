// RankLeader: the engine's model where several ranks compute it: the first rank's share, with the
// other ranks told to do the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "comm/rank_message.h"
#include "engine/language_model.h"
#include "engine/model_adapter.h"
#include "engine/ranks/rank_calls.h"
#include "model/model.h"

namespace fathom {

// What is wrong with a batch is found before anybody is told. A failure behind that leaves the
// ranks in different places: it ends the run. From then on every call is an error kUnavailable that
// says why. One thread at a time.
class RankLeader : public LanguageModel {
 public:
  // Called once, with the failure, from the thread that uses the model.
  using OnFailure = std::function<void(const Error& error)>;

  // On rank 0 of `all`, whose others follow (rank_follower.h). Model and ranks outlive it.
  RankLeader(Model& model, Communicator& all, OnFailure on_failure,
             AfterForward after_forward = {});

  ModelLimits Limits() const override { return local_.Limits(); }
  SequenceCache& Cache() override { return local_.Cache(); }
  Status Forward(const Batch& batch) override;
  Status StartLogits(std::span<const std::int32_t> rows, int place) override;
  Result<Matrix<const float>> FinishLogits(int place) override;
  Status ForwardDraft(const Batch& next, std::span<const std::int32_t> stream_rows,
                      StreamSource source) override;
  Result<Matrix<const float>> DraftLogits(std::span<const std::int32_t> rows) override;
  Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) override;

 private:
  template <class Fill, class Run>
  Status Call(RankCall call, const Fill& fill, const Run& run);
  Status Checked(Status ran);
  Result<Matrix<const float>> Checked(Result<Matrix<const float>> logits);

  Model& model_;
  ModelAdapter local_;
  Communicator& all_;
  OnFailure on_failure_;
  AfterForward after_forward_;  // may be empty
  CacheShadow shadow_;
  RankMessage message_;
  std::optional<Error> failure_;  // as the engine is told
};

}  // namespace fathom
