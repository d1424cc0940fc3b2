// The parts of a model whose routed experts are streamed from disk.
#pragma once

#include "distributed/model_ranks.h"
#include "experts/balance/expert_placement.h"
#include "experts/streaming/streaming_options.h"
#include "model/model_parts.h"

namespace fathom {

// For ModelOptions::parts; options.slots, of this rank, is not 0. With several ranks, which must
// outlive the model, each reads the experts that `placement` gives it (empty: physical expert p
// holds logical p mod E). All ranks must stream. Errors of creating the parts: as
// StreamedExperts::Create and ShardedParts.
MakeModelParts StreamedParts(StreamingOptions options, const ModelRanks* ranks = nullptr,
                             BlockPlacements placement = {});

}  // namespace fathom
