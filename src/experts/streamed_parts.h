// The parts of a model whose routed experts are streamed from disk.
#pragma once

#include "experts/streaming/streaming_options.h"
#include "model/model_parts.h"

namespace fathom {

// For ModelOptions::parts of one process; options.slots is not 0. Errors of making them: those of
// StreamedExperts::Create.
MakeModelParts StreamedParts(StreamingOptions options);

}  // namespace fathom
