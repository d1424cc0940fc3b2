// A load as a picture: throughput and latency against what was asked.
#pragma once

#include <string>

#include "measure/load/load_report.h"

namespace fathom::load {

// An SVG file of three panels over concurrency or rate: tokens per second, TTFT and TPOT. Of the
// latter two the median and the 99th percentile are lines.
std::string ToSvg(const LoadReport& report);

}  // namespace fathom::load
