// RunLoad: runs one level of a load: requests over HTTP, with a thread and a connection for each
// running request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "measure/load/completion_stream.h"
#include "measure/load/load_plan.h"
#include "measure/load/load_target.h"

namespace fathom::measure::load {

// The most running requests of an open loop. Due requests beyond them wait, and their wait is part
// of their measured time.
inline constexpr int kMostAtOnce = 2048;

struct LoadJob {
  LoadTarget target;
  WorkloadOptions workload;
  LoadLevel level;
  // Levels with different conversations cannot benefit from each other's cached prefixes.
  std::int64_t first_conversation = 0;
  // The level ends after this number of conversations or after this time; at least one limit is
  // set. Running requests are awaited.
  std::optional<std::int64_t> n_conversations;
  std::optional<double> seconds;
};

struct LoadProgress {
  double time_s = 0;
  std::int64_t n_done = 0;  // requests
};

// Called every 50 ms on the calling thread. Returns false to cancel the running requests and end
// the level.
using LoadWatch = std::function<bool(const LoadProgress&)>;

struct LoadResult {
  double duration_s = 0;  // from the start to the end of the last request
  std::int64_t n_begun = 0;
  bool interrupted = false;
  std::vector<RequestRecord> records;  // in the order of their ends
};

// A failed request ends its conversation and nothing else.
LoadResult RunLoad(const LoadJob& job, const LoadWatch& watch);

}  // namespace fathom::measure::load
