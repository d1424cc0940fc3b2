// The division of a model among ranks, as the options of a run ask for it.
#pragma once

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "runtime/options.h"

namespace fathom {

// Returns how so many ranks divide the model. Whether the model allows it: CheckCounts. Error: an
// --ep that is neither 1 nor all ranks of a stage.
Result<RankCounts> CountRanks(const RankOptions& options, int n_ranks, const ModelConfig& config);

}  // namespace fathom
