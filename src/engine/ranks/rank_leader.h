// RankLeader: the engine's model on the first of several ranks. Computes this rank's part of each
// call and makes the other ranks compute theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/rank_message.h"
#include "engine/ranks/rank_calls.h"
#include "model/language_model.h"
#include "model/model.h"

namespace fathom::engine {

// Checks a batch before sending it to the other ranks. A later failure leaves the ranks in
// different states, so every further call returns kUnavailable with the reason. One thread at a
// time.
class RankLeader : public LanguageModel {
 public:
  // Called once, with the failure, from the thread that uses the model.
  using OnFailure = std::function<void(const Error& error)>;

  // Runs on rank 0 of `all`; the other ranks run FollowCalls (rank_follower.h). `model` and `all`
  // must outlive the leader.
  RankLeader(Model& model, Communicator& all, OnFailure on_failure,
             AfterForward after_forward = {});

  ModelLimits Limits() const override { return model_.Limits(); }
  SequenceCache& cache() override { return model_.cache(); }
  Status Forward(const Batch& batch, std::vector<SequenceFailure>& failed) override;
  // The ranks run each layer together; between layers, this rank may make other calls, since only
  // it measures time. A layer that has begun runs to its end: should_stop is not called, and the
  // caller stops between layers.
  Result<std::unique_ptr<LayeredPass>> BeginPass(const Batch& batch,
                                                 ShouldStop should_stop) override;
  // Returns the counts of the ranks that divide the experts of the first stage, or of this stage.
  std::optional<StreamingCounts> Streaming() const override { return model_.Streaming(); }
  Status StartTokens(std::span<const std::int32_t> rows, DescribeRows describe, int slot) override;
  Result<ChosenTokens> FinishTokens(int slot) override;
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override;
  Status ProposeDrafts(std::span<const DraftRequest> requests, const DescribeDrafts& describe,
                       const ChooseDrafts& choose) override;
  Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) override;

 private:
  class LeaderPass;

  template <class Fill, class Run>
  Status Call(RankCall call, const Fill& fill, const Run& run);
  // Prepares the batch here, and then runs the call on all ranks.
  template <class Run>
  Status CallWithBatch(RankCall call, const Batch& batch, const Run& run);
  Status EndForward(std::int64_t n_tokens) {
    return after_forward_ ? after_forward_(n_tokens) : Status();
  }
  Status Checked(Status ran);

  Model& model_;
  Communicator& all_;
  OnFailure on_failure_;
  AfterForward after_forward_;  // may be empty
  CacheShadow shadow_;
  RankMessage message_;
  std::optional<Error> failure_;  // the error that the engine receives
};

}  // namespace fathom::engine
