// Limits of a model: checks of options and batches, and the size of the largest step.
#pragma once

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "kv_cache/sequence_cache.h"
#include "model/model.h"

namespace fathom::model {

struct DrafterKind;

// Returns the size of the largest step of such a model.
StepLimits MakeStepLimits(const ModelConfig& config, const ModelOptions& options,
                          const DrafterKind* drafter);

// Error: a context that the model does not have, or a limit below 1.
Status CheckOptions(const ModelConfig& config, const ModelOptions& options);

// Error: more than max_tokens, or a token, sequence or position out of range.
Status CheckBatch(const BatchView& batch, const ModelConfig& config, const ModelOptions& options,
                  std::int64_t max_tokens);

// Error: positions that do not follow the cached positions of the sequences.
Status CheckOrder(const BatchView& batch, const SequenceCache& cache);

}  // namespace fathom::model
