// What a load has measured, for people, programs and spreadsheets.
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
  bool interrupted = false;  // the last level is not complete
  std::vector<LevelSummary> levels;
};

// A row per figure and a column per level, five of them beside each other; then the failures.
std::string ToTable(const LoadReport& report);
// One object with a newline at the end; what was not measured is null.
std::string ToJson(const LoadReport& report);
// One line of names, then one per level; what was not measured is empty.
std::string ToCsv(const LoadReport& report);

}  // namespace fathom::load
