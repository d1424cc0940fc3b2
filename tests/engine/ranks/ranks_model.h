// A model of several ranks in one process, a thread each, joined as processes would be.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/abort_flag.h"
#include "distributed/model_ranks.h"
#include "engine/ranks/rank_leader.h"
#include "model/model.h"
#include "tests/testing/remote_backend.h"

namespace fathom::testing {

// The engine uses the first rank. A failure of any rank fails the test.
class RanksModel final : public LanguageModel {
 public:
  // small_memory: hardly more than a sequence of each data rank needs (schedule_checks.h).
  RanksModel(const std::filesystem::path& directory, const RankCounts& counts,
             const ModelOptions& options, bool small_memory, TestMemory memory = TestMemory::kHost);
  ~RanksModel() override;

  ModelLimits Limits() const override { return leader_->Limits(); }
  SequenceCache& Cache() override { return leader_->Cache(); }
  Status Forward(const Batch& batch) override { return leader_->Forward(batch); }
  Status StartLogits(std::span<const std::int32_t> rows, int place) override {
    return leader_->StartLogits(rows, place);
  }
  Result<Matrix<const float>> FinishLogits(int place) override {
    return leader_->FinishLogits(place);
  }
  Status CommitToDrafter(const Batch& next, std::span<const std::int32_t> stream_rows,
                         StreamSource source) override {
    return leader_->CommitToDrafter(next, stream_rows, source);
  }
  Status ProposeDrafts(std::span<const DraftRequest> requests,
                       const ChooseDrafts& choose) override {
    return leader_->ProposeDrafts(requests, choose);
  }
  Result<std::unique_ptr<BlockStore>> OpenDisk(
      const DiskTierOptions& options, const BlockKey& root,
      std::function<void(const std::string&)> warn) override {
    return leader_->OpenDisk(options, root, std::move(warn));
  }

 private:
  class Rank;

  AbortFlag alarm_;
  std::vector<std::jthread> followers_;
  std::unique_ptr<Rank> first_;
  std::optional<RankLeader> leader_;
};

}  // namespace fathom::testing
