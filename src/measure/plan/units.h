// Units and conversions of the plan.
#pragma once

#include <cstdint>

namespace fathom::plan {

inline constexpr double kGiga = 1e9;

inline double Number(std::int64_t x) { return static_cast<double>(x); }

}  // namespace fathom::plan
