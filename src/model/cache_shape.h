// The caches that a model has, known before it is loaded.
#ifndef FATHOM_MODEL_CACHE_SHAPE_H_
#define FATHOM_MODEL_CACHE_SHAPE_H_

#include "checkpoint/model_config.h"
#include "kv_cache/layout.h"
#include "model/model.h"

namespace fathom {

// What Model::Load allocates for these options.
CacheShape CacheShapeOf(const ModelConfig& config, const ModelOptions& options);

}  // namespace fathom

#endif  // FATHOM_MODEL_CACHE_SHAPE_H_
