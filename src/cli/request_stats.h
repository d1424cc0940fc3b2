// The speed of a request, for people.
#pragma once

#include <string>

#include "engine/token_stream.h"
#include "model/streaming_counts.h"

namespace fathom::cli {

// "load 0.05 s; prompt 140 tokens (128 cached), 2345 tokens/s; generated 99 tokens, 432.1 tokens/s;
// seed 7"
std::string DescribeStats(double load_seconds, const RequestStats& stats);

// "experts from disk: hit rate 0.61 (hash layers 0.55), 1.31 GB read per token at 2.70 GB/s, 12.3
// ms waited per token; pool 1694 of 1694 slots, 22.7 GB": what was read per token that the model
// computed, and how fast the disk was while it read.
std::string DescribeStreaming(const StreamingCounts& counts);

// Tokens computed per second; 0 if nothing was measured.
double PrefillRate(const RequestStats& stats);
double DecodeRate(const RequestStats& stats);

}  // namespace fathom::cli
