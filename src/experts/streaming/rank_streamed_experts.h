// RankStreamedExperts: the streamed experts of one rank of several that divide the experts. The
// rank reads the experts that it computes, into a pool of its own, for tokens of all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "experts/streaming/streamed_experts.h"

namespace fathom::experts {

// An expert that cannot be read is recorded, and the rank continues: other ranks may compute tokens
// that do not need it (experts/exchange/shared_failures.h).
class RankStreamedExperts : public StreamedExperts {
 public:
  // For steps of at most max_tokens of all ranks together. Errors: as StreamedExperts::Create; a
  // placement of other experts.
  static Result<std::unique_ptr<RankStreamedExperts>> Create(
      Backend& backend, const ModelConfig& config, const ModelShard& shard,
      const BlockPlacements& placement, std::int64_t max_tokens, StreamingOptions options);

  void ShardWeights(ModelWeights& weights) const override;
  // Returns the counts of all ranks of the stage together, of the others as of the last step;
  // counts() returns the counts of this rank alone.
  std::optional<StreamingCounts> streaming() const override;
  void NoteOthers(std::span<const StreamingCounts> others);

  // Returns the expert rank that computes `expert` for the token at `position` of its sequence.
  int FindRank(std::int64_t block, std::int32_t position, std::int32_t expert) const {
    return maps_[static_cast<std::size_t>(block)].FindRank(position, expert);
  }

 protected:
  bool Computes(std::int64_t block, std::int32_t position, std::int32_t expert) const override {
    return FindRank(block, position, expert) == expert_rank_;
  }
  bool FailUsers(ForwardPass& pass, std::int64_t block, std::int32_t expert,
                 const Error& error) override;

 private:
  RankStreamedExperts(Backend& backend, const ModelConfig& config, const ModelShard& shard,
                      std::vector<ReplicaMap> maps, std::int64_t max_tokens,
                      StreamingOptions options);

  int expert_rank_;
  std::vector<ReplicaMap> maps_;
  mutable std::mutex others_mutex_;
  std::vector<StreamingCounts> others_;  // guarded by the mutex
};

}  // namespace fathom::experts
