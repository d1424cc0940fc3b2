// Computes the caches that a model has, before it is loaded.
#pragma once

#include "checkpoint/model_config.h"
#include "kv_cache/layout.h"
#include "model/model.h"

namespace fathom::model {

struct DrafterKind;

// Returns the caches of a whole model with these options, and of the drafter unless it is null.
CacheShape MakeCacheShape(const ModelConfig& config, const ModelOptions& options,
                          const DrafterKind* drafter = nullptr);

}  // namespace fathom::model
