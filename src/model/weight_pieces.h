// Lists and moves the data of bound weights as pieces of memory.
#pragma once

#include <cstdint>

#include "base/pages.h"
#include "base/result.h"
#include "checkpoint/weight_memory.h"
#include "kernels/backend.h"
#include "model/weights.h"

namespace fathom::model {

enum class WalkedWeights {
  kAll,
  kResident,  // without the routed experts and the embedding: the weights that every token reads
  kDense,     // without the drafter, the routed experts and the embedding
  kDraft,     // the weights of the drafter, without its routed experts
};

// Returns bound data, in files or copied, always in the same order; no piece is empty. The pieces
// of an expert are in the order of MakeExpertLayout (experts/balance/expert_transfer.h).
MemoryPieces WeightPieces(const ModelWeights& weights, WalkedWeights which = WalkedWeights::kAll);
// Returns the bytes of these pieces.
std::int64_t WeightBytes(const ModelWeights& weights);

// Points the weights to `places` in `memory`, to which HoldWeights has moved their pieces. With
// kAll, files and earlier copies are not used any more.
void MoveWeights(ModelWeights& weights, WalkedWeights which, const MemoryPieces& places,
                 PageMemory memory);

// Imports the weights into memory of the backend (Backend::Import), except the routed experts,
// which Backend::BindExperts prepares, and the embedding, which the host may read. The original
// weights stay where they are, too. Error: no memory.
Status ImportDenseWeights(ModelWeights& weights, Backend& backend);

}  // namespace fathom::model
