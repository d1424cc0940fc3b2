// The profile of a row, for people and programs.
#pragma once

#include <string>

#include "json/json_value.h"
#include "kernels/profile.h"
#include "kernels/roofline.h"

namespace fathom::bench {

// Writes a heading and one line per kernel, the longest first, with its share of the time and of
// the copy bandwidth. `row` names what was profiled.
std::string ProfileTable(const std::string& row, const Profile& profile, const Roofline& roofline);

// Returns {seconds, kernels [{name, n, seconds, bytes, gb_s, percent_copy}]}; the last three where
// the bytes are known.
JsonValue ProfileJson(const Profile& profile, const Roofline& roofline);

}  // namespace fathom::bench
