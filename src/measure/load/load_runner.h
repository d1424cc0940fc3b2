// Runs one level of a load: requests over HTTP, a thread and a connection for each that runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "measure/load/load_plan.h"
#include "measure/load/load_target.h"
#include "measure/load/request_record.h"

namespace fathom::load {

// Requests of an open loop that run at once; what is due beyond them waits, and its waiting counts.
inline constexpr int kMostAtOnce = 2048;

struct LoadJob {
  LoadTarget target;
  WorkloadOptions workload;
  LoadLevel level;
  std::int64_t first_conversation = 0;  // levels that share none cannot profit from each other
  // Ends after so many conversations have begun, or so much time; at least one of them is set.
  // What runs by then is waited for.
  std::optional<std::int64_t> n_conversations;
  std::optional<double> seconds;
};

struct LoadProgress {
  double time_s = 0;
  std::int64_t n_begun = 0;  // conversations
  std::int64_t n_done = 0;   // requests
  std::int64_t n_failed = 0;
};

// RequestContext every 50 ms on the thread that called; false cancels what runs and ends.
using LoadWatch = std::function<bool(const LoadProgress&)>;

struct LoadResult {
  double duration_s = 0;  // from the start to the end of the last request
  std::int64_t n_begun = 0;
  bool interrupted = false;
  std::vector<RequestRecord> records;  // in the order of their ends
};

// A request that fails ends its conversation and nothing else.
LoadResult RunLoad(const LoadJob& job, const LoadWatch& watch);

}  // namespace fathom::load
