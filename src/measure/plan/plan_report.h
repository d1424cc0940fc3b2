// Writes plans as text and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "measure/plan/model_sizes.h"
#include "measure/plan/planner.h"
#include "planning/host_report.h"

namespace fathom::measure::plan {

// Writes the first n_rows; 0: all.
std::string ToTable(const ModelSizes& model, const PlannedLayouts& plan, std::int64_t n_rows);
// Writes everything, in bytes and seconds.
std::string ToJson(const ModelSizes& model, const PlannedLayouts& plan);

// The speeds of disks that the report of a host compares, in GB/s.
inline constexpr double kComparedDisks[] = {0.5, 3, 6, 12};

// Write the expected loading on a host or on ranks, with tokens per second for kComparedDisks too.
std::string ToTable(const ModelSizes& model, const HostPrediction& hosts);
std::string ToJson(const ModelSizes& model, const HostPrediction& hosts);

}  // namespace fathom::measure::plan
