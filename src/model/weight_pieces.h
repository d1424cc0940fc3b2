// The bytes of bound weights, of a whole model or of a rank's share: which they are, and moving
// them.
#pragma once

#include <cstdint>

#include "base/pages.h"
#include "base/result.h"
#include "checkpoint/weight_memory.h"
#include "kernels/backend.h"
#include "model/weights.h"

namespace fathom {

// Everything that is bound, in the files or copied, always in the same order: none is empty. Those
// of an expert are as BindTo has them (experts/balance/expert_transfer.h).
MemoryPieces WeightPieces(const ModelWeights& weights);
// Bytes of them.
std::int64_t WeightBytes(const ModelWeights& weights);

// The weights are from now on at these places of `memory`, where HoldWeights has moved those of
// WeightPieces to. Nothing of them is left in files or earlier copies.
void MoveWeights(ModelWeights& weights, const MemoryPieces& places, PageMemory memory);

// Imports the weights into memory of the backend (Backend::Import), but for the routed experts,
// which Backend::BindExperts readies, and the embedding, which the host may read. The weights stay
// where they were, too. Error: no memory.
Status ImportDenseWeights(ModelWeights& weights, Backend& backend);

}  // namespace fathom
