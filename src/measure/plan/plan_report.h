// Writes a plan as text and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "measure/plan/planner.h"

namespace fathom::plan {

// Writes the first n_rows; 0: all.
std::string ToTable(const Plan& plan, std::int64_t n_rows);
// Writes everything, in bytes and seconds.
std::string ToJson(const Plan& plan);

}  // namespace fathom::plan
