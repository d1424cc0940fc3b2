// A plan as text and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "measure/plan/planner.h"

namespace fathom::plan {

// Returns the first n_rows; 0: all.
std::string ToTable(const Plan& plan, std::int64_t n_rows);
// Returns everything, in bytes and seconds.
std::string ToJson(const Plan& plan);

}  // namespace fathom::plan
