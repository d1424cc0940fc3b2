// The rows of a benchmark as a picture: throughput against depth.
#pragma once

#include <string>

#include "measure/bench/report.h"

namespace fathom::benchmark {

// An SVG file. One panel for decoding and one for prefill, where there are such rows: tokens per
// second, from 0, over the tokens in the cache. Rows that differ in depth alone are one line; a
// point is the median, the bar through it goes from the slowest to the fastest repetition, its
// title says the numbers.
std::string ToSvg(const Report& report);

}  // namespace fathom::benchmark
