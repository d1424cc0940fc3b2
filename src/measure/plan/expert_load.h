// ExpertLoad: the frequency with which the experts of each layer are chosen.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"

namespace fathom::measure::plan {

// [layer][expert]: the share of tokens that choose an expert. The shares of a layer add up to the
// number of experts of a token, and none is above 1.
using ExpertLoad = std::vector<std::vector<double>>;

// Gives the i-th most popular expert of a layer a weight of i^-exponent. Each layer draws the order
// of its experts from a fixed seed. With exponent 0 all weights are equal.
ExpertLoad ZipfLoad(const ModelConfig& config, double exponent);

// Parses a recorded trace, in one of two forms:
//   {"loads": [[12, 0, 7, ...], ...]}     of every layer, or one for all: how often each expert
//                                         was chosen
//   {"layer": 3, "experts": [17, 4, ...]} one line for each token and layer: its chosen experts
// Errors (kInvalidData) name the file and the field or line.
Result<ExpertLoad> ParseExpertTrace(std::string_view text, std::string_view file_name,
                                    const ModelConfig& config);

}  // namespace fathom::measure::plan
