// The figures of each level of a load, and their reports for people, programs and spreadsheets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "measure/load/completion_stream.h"
#include "measure/load/load_plan.h"
#include "measure/load/load_runner.h"
#include "measure/load/load_target.h"

namespace fathom::measure::load {

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

struct LevelSummary {
  LoadLevel level;
  LoadSummary summary;
};

struct LoadReport {
  std::string url;
  std::string model;
  LoadEndpoint endpoint = LoadEndpoint::kCompletions;
  WorkloadOptions workload;
  Objectives objectives;
  bool interrupted = false;  // the last level is incomplete
  std::vector<LevelSummary> levels;
};

// Writes a row per figure and a column per level, five levels beside each other; then the failures.
std::string ToTable(const LoadReport& report);
// Writes one object with a newline at the end; missing figures are null.
std::string ToJson(const LoadReport& report);
// Writes one line of names, then one line per level; missing figures are empty.
std::string ToCsv(const LoadReport& report);

// Draws an SVG file with three panels over concurrency or rate: tokens per second, TTFT and TPOT.
// The times have a line for the median and one for the 99th percentile.
std::string ToSvg(const LoadReport& report);

}  // namespace fathom::measure::load
