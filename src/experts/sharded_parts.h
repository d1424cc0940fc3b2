// The parts of a model that several ranks share.
#pragma once

#include "distributed/model_ranks.h"
#include "experts/store/placed_experts.h"
#include "model/model_parts.h"

namespace fathom {

// For ModelOptions::parts: the parts of this rank's shard, or of the whole model if `ranks` is
// null. The ranks must outlive the model. Errors of creating the parts: a placement of other
// experts; no memory; ranks that cannot be reached.
MakeModelParts ShardedParts(const ModelRanks* ranks, ExpertOptions options = {});

}  // namespace fathom
