// Writes plans of hosts as text and as JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "json/json_value.h"
#include "model/streaming_counts.h"
#include "planning/host_plan.h"

namespace fathom::planning {

// The expected loading of a model and its speed, on one host or on ranks that divide it.
struct HostPrediction {
  HostPlans plans;         // one for every rank
  bool has_ranks = false;  // false: one plan, of the whole model
  HostSpeeds speeds;

  bool Fits() const;
  // Returns the seconds of a token with these speeds: the ranks of a stage work concurrently, stage
  // after stage.
  double SecondsPerToken(const HostSpeeds& with) const;
};

// Returns one line: "16.000 GB of memory: 0.140 GB caches, 0.245 GB activations, 7.793 GB dense
// weights; 480 of 11008 experts (4.4 %), expected hit rate 0.41, 2.038 GB read per token, 1.14
// tokens/s (disk 3 GB/s, memory 40 GB/s, assumed)".
std::string Describe(const HostPlan& plan, const HostSpeeds& speeds);
// Returns the line without the speed.
std::string Describe(const HostPlan& plan);

// A rank's part of the work for one token of one sequence.
struct RankSpeed {
  std::int64_t stage = 0;
  double read_per_token = 0;  // bytes from disk
  double seconds_per_token = 0;
};
RankSpeed SpeedOfRank(const HostPlan& plan, const HostSpeeds& speeds);
// Returns the line for all ranks, which read concurrently within a stage, stage after stage: "all 2
// ranks: 2.038 GB read per token, 1.14 tokens/s (disk 3 GB/s, memory 40 GB/s of a rank, assumed)".
std::string DescribeRanks(std::span<const RankSpeed> ranks, const HostSpeeds& speeds);

// Returns the lines that loading prints: of the whole model, and one about the memory of forms
// (DefaultConstraintMemory), which is not part of the plan; or "rank 0: 8.000 GB of memory: ..."
// and so on, and the line for all ranks.
std::vector<std::string> Describe(const HostPrediction& prediction);

// Return everything, in bytes and seconds. A prediction is an object with "host", or with a list of
// "ranks" and the tokens per second of all.
JsonValue ToJson(const HostPlan& plan, const HostSpeeds& speeds);
JsonValue ToJson(const HostPrediction& prediction);

// Returns "experts from disk: hit rate 0.61 (hash layers 0.55), 1.31 GB read per token at 2.70
// GB/s, 12.3 ms waited per token (the disk busy 99 % of it, 2.71 GB/s); pool 1694 of 1694 slots,
// 22.7 GB": the bytes read per computed token, and the speed of the disk while it read, and while
// steps waited for it.
std::string Describe(const StreamingCounts& counts);

}  // namespace fathom::planning
