// Describes the speed of a request for people.
#pragma once

#include <cstdint>
#include <string>

#include "engine/metrics.h"
#include "engine/token_stream.h"

namespace fathom::cli {

// Returns "load 0.05 s; prompt 140 tokens (128 cached), 2345 tokens/s; generated 99 tokens, 432.1
// tokens/s; seed 7".
std::string DescribeStats(double load_seconds, const RequestStats& stats);

// Returns tokens computed per second; 0 if nothing was measured.
double PrefillRate(const RequestStats& stats);
double DecodeRate(const RequestStats& stats);

// Returns the part of an engine's only prompt that has been read, 0 to 1. Counts the layers that
// have run in a step in pieces.
double PromptShare(const MetricsSnapshot& now, std::int64_t n_prompt);

}  // namespace fathom::cli
