// Computes the size of the CPU backend's working memory without a backend.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace fathom::kernels {

// Returns the bytes that Backend::Reserve takes with these limits and threads.
std::int64_t CpuScratchBytes(const StepLimits& limits, int n_threads);

}  // namespace fathom::kernels
