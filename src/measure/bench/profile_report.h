// Writes the profile of a row, for people and programs.
#pragma once

#include <string>

#include "json/json_value.h"
#include "kernels/profile.h"
#include "kernels/roofline.h"

namespace fathom::bench {

// Writes a heading and one line per part of the model and operation or kernel, the longest first,
// with its share of the time and of the limits: the copy bandwidth for GPUs, the read bandwidth and
// the multiply-adds for processors. `row` names the profiled row.
std::string ProfileTable(const std::string& row, const Profile& profile, const Roofline& roofline);

// Returns {seconds, kernels [{part, name, n, seconds, bytes, gb_s, percent_copy or percent_read,
// flops, gflop_s, percent_fma}]}. Bytes, flops and the values derived from them are present where
// they are known.
JsonValue ProfileJson(const Profile& profile, const Roofline& roofline);

}  // namespace fathom::bench
