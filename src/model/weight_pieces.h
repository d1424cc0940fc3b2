// The data of bound weights as pieces of memory: listing and moving them.
#pragma once

#include <cstdint>

#include "base/pages.h"
#include "base/result.h"
#include "checkpoint/weight_memory.h"
#include "kernels/backend.h"
#include "model/weights.h"

namespace fathom {

enum class WalkedWeights {
  kAll,
  kResident,  // without the routed experts and the embedding: what every token reads
  kDense,     // without the drafter, the routed experts and the embedding
  kDraft,     // those of the drafter, without its routed experts
};

// Bound data, in files or copied, always in the same order; no piece is empty. The pieces of an
// expert are in the order of MakeExpertLayout (experts/balance/expert_transfer.h).
MemoryPieces WeightPieces(const ModelWeights& weights, WalkedWeights which = WalkedWeights::kAll);
// Their bytes.
std::int64_t WeightBytes(const ModelWeights& weights);

// Points the weights to `places` in `memory`, to which HoldWeights has moved their pieces. With
// kAll, files and earlier copies are not used any more.
void MoveWeights(ModelWeights& weights, WalkedWeights which, const MemoryPieces& places,
                 PageMemory memory);

// Imports the weights into memory of the backend (Backend::Import), but for the routed experts,
// which Backend::BindExperts readies, and the embedding, which the host may read. The weights stay
// where they were, too. Error: no memory.
Status ImportDenseWeights(ModelWeights& weights, Backend& backend);

}  // namespace fathom
