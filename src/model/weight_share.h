// The weights of one rank: what remains of all the model's weights (model/model_ranks.h).
#ifndef FATHOM_MODEL_WEIGHT_SHARE_H_
#define FATHOM_MODEL_WEIGHT_SHARE_H_

#include <cstdint>
#include <span>

#include "checkpoint/model_config.h"
#include "checkpoint/weight_memory.h"
#include "model/expert_placement.h"
#include "model/model_ranks.h"
#include "model/weights.h"

namespace fathom {

// Narrows bound weights to those of a share that CheckCounts has found right. Rows of a matrix stay
// where they are in the files; columns are copied, as they are no piece of the file. What belongs
// to other ranks is a weight without bytes, which nothing may read. experts: of every block.
void TakeShare(ModelWeights& weights, const ModelConfig& config, const ModelShare& share,
               std::span<const ReplicaMap> experts);

// The matrices and tables that this rank reads, in the files or copied; without vectors (norms,
// sinks, biases), which are a few kilobytes a layer. Some pieces may be empty.
MemoryPieces ShareMemory(const ModelWeights& weights, const ModelShare& share);
// Bytes of them.
std::int64_t ShareBytes(const ModelWeights& weights, const ModelShare& share);

}  // namespace fathom

#endif  // FATHOM_MODEL_WEIGHT_SHARE_H_
