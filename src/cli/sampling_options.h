// Sampling options as the sampling of a request.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/options/options.h"
#include "engine/request.h"
#include "runtime/generation_config.h"

namespace fathom::cli {

// Returns the given options; for the others the model's generation_config.json; else max_tokens as
// given.
SamplingParameters MakeSamplingParameters(const SamplingOptions& options,
                                          const GenerationConfig& config,
                                          std::optional<std::int64_t> max_tokens);

}  // namespace fathom::cli
