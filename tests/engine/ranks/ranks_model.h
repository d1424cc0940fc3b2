// A model of several ranks in one process, a thread each, joined as processes would be.
#pragma once

#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "comm/abort_flag.h"
#include "distributed/model_ranks.h"
#include "engine/ranks/rank_leader.h"
#include "experts/streaming/streaming_options.h"
#include "model/model.h"
#include "tests/testing/remote_backend.h"

namespace fathom::testing {

// The ranks of a RanksModel: the first, and threads that run the others.
class RunningRanks {
 public:
  RunningRanks(const std::filesystem::path& directory, const RankCounts& counts,
               const ModelOptions& options, bool small_memory, TestMemory memory,
               const StreamingOptions& streaming);
  ~RunningRanks();

 protected:
  class Rank;

  AbortFlag abort_flag_;
  std::vector<std::jthread> followers_;
  std::unique_ptr<Rank> first_;
};

// The leader of ranks that run. The engine uses the first rank. A failure of any rank fails the
// test.
class RanksModel final : private RunningRanks, public RankLeader {
 public:
  // small_memory: hardly more than a sequence of each data rank needs (schedule_checks.h).
  // streaming.slots: each rank streams its experts; 0: it has them.
  RanksModel(const std::filesystem::path& directory, const RankCounts& counts,
             const ModelOptions& options, bool small_memory, TestMemory memory = TestMemory::kHost,
             const StreamingOptions& streaming = {});
  ~RanksModel() override;
};

}  // namespace fathom::testing
