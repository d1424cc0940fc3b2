// The caches that a model has, known before it is loaded.
#pragma once

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kv_cache/layout.h"
#include "model/model.h"

namespace fathom {

// For these options, as this rank would have them if it need not agree with others.
CacheShape CacheShapeOf(const ModelConfig& config, const ModelOptions& options);

// What Model::Load allocates: of several ranks, called by all, no more blocks than each of them has
// room for. Errors: this rank has room for too few; a rank is gone.
Result<CacheShape> AgreedCacheShape(const ModelConfig& config, const ModelOptions& options);

}  // namespace fathom
