// The progress and the summary of a batch.
#pragma once

#include <string>

#include "cli/batch/batch_run.h"

namespace fathom::cli {

// "batch 12/300, in 1234.5, out 67.8 tokens/s, 4 min 30 s left"; n_open as planned.
std::string BatchProgress(const BatchTotals& totals, std::int64_t n_open, double seconds);

// "12 of 300 requests (2 kept from before), 1 error; tokens: prompt 345 (30 cached), generated 678;
// 9.1 s, 37.9 prompt tokens/s, 74.5 generated tokens/s"
std::string BatchSummary(const BatchTotals& totals, const BatchPlan& plan, double seconds);

}  // namespace fathom::cli
