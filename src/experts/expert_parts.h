// The parts of a model that several ranks share, or whose routed experts are streamed from disk.
#pragma once

#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "experts/store/placed_experts.h"
#include "experts/streaming/streaming_options.h"
#include "model/model_parts.h"

namespace fathom::experts {

// For ModelOptions::parts: the parts of this rank's shard, or of the whole model if `ranks` is
// null. The ranks must outlive the model. Errors of creating the parts: a placement of other
// experts; no memory; ranks that cannot be reached.
MakeModelParts ShardedParts(const ModelRanks* ranks, ExpertOptions options = {});

// For ModelOptions::parts; options.slots, of this rank, is not 0. With several ranks, which must
// outlive the model, each reads the experts that `placement` gives it (empty: physical expert p
// holds logical p mod E). All ranks must stream. Errors of creating the parts: as
// StreamedExperts::Create and ShardedParts.
MakeModelParts StreamedParts(StreamingOptions options, const ModelRanks* ranks = nullptr,
                             BlockPlacements placement = {});

}  // namespace fathom::experts
