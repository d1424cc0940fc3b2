// Writes the measurements of a load, for people, programs and spreadsheets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/load/load_plan.h"
#include "measure/load/load_summary.h"
#include "measure/load/load_target.h"

namespace fathom::load {

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

}  // namespace fathom::load
