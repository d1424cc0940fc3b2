// Computes the division of a model among ranks that the options of a run demand.
#pragma once

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "planning/options.h"

namespace fathom {

// Returns how n_ranks ranks divide the model. CheckCounts decides whether the model allows it.
// Error: an --ep that is neither 1 nor all ranks of a stage.
Result<RankCounts> CountRanks(const RankOptions& options, int n_ranks, const ModelConfig& config);

}  // namespace fathom
