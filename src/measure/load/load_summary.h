// LoadSummary: the figures of one level.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "measure/load/completion_stream.h"
#include "measure/load/load_runner.h"

namespace fathom::load {

// Returns the value that `percent` of the values do not exceed, interpolated linearly (like
// numpy.percentile). `sorted` ascends and is not empty.
double Percentile(std::span<const double> sorted, double percent);

struct Spread {
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;

  bool operator==(const Spread&) const = default;
};
// Returns none without values.
std::optional<Spread> ComputeSpread(std::vector<double> values);

// The most milliseconds for a good request; none: that time has no limit.
struct Objectives {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> e2e_ms;
  bool any() const { return ttft_ms || tpot_ms || e2e_ms; }
};
// Parses one more objective: "ttft:500", "tpot:50" or "e2e:10000".
Status AddObjective(std::string_view text, Objectives* objectives);

struct FailureCount {
  std::string failure;  // RequestRecord::failure
  std::int64_t n = 0;
  std::string message;  // message of the first such failure
};

// Times of successful requests in milliseconds; rates of the whole level per second.
struct LoadSummary {
  std::int64_t n_successful = 0;
  std::int64_t n_failed = 0;
  std::int64_t n_cancelled = 0;
  std::vector<FailureCount> failures;  // the most frequent first
  double duration_s = 0;
  std::int64_t n_input = 0;
  std::int64_t n_cached = 0;
  std::int64_t n_output = 0;
  double request_rate = 0;
  double output_token_rate = 0;
  double total_token_rate = 0;
  double mean_concurrency = 0;
  std::int64_t peak_concurrency = 0;
  std::optional<double> goodput;  // good requests per second; none without objectives
  std::optional<Spread> ttft;     // time to the first token
  std::optional<Spread> tpot;     // time per token after the first, one value per request
  std::optional<Spread> itl;      // time between tokens, one value per token
  std::optional<Spread> e2e;      // time to the end of the answer
};

LoadSummary Summarize(const LoadResult& result, const Objectives& objectives);

}  // namespace fathom::load
