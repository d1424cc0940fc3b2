// What has to travel when the replicas of a block move, and where it lies on arrival.
#ifndef FATHOM_MODEL_EXPERT_TRANSFER_H_
#define FATHOM_MODEL_EXPERT_TRANSFER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/weight_format.h"
#include "model/expert_placement.h"

namespace fathom {

// One expert from a rank that has it to one that is to have it.
struct ExpertTransfer {
  std::int32_t expert = 0;
  int from = 0;
  int to = 0;
  friend bool operator==(const ExpertTransfer&, const ExpertTransfer&) = default;
};

// Rounds in which every rank is sent at most one expert. What a rank has already it is not sent,
// and ranks that have the same expert take turns in sending it. The same on all ranks.
std::vector<std::vector<ExpertTransfer>> PlanTransfers(const ReplicaMap& from,
                                                       const ReplicaMap& to);

// Bytes of an expert's matrices and scales, each at a multiple of 64, whether they are here or not.
std::int64_t BytesOf(const ExpertWeights& expert);

// The expert with its bytes in `memory` [BytesOf], scales before their matrix.
ExpertWeights BindTo(const ExpertWeights& expert, std::span<const std::byte> memory);

// The bytes themselves, the six pieces in the order in which they travel.
std::array<std::span<const std::byte>, 6> PiecesOf(const ExpertWeights& expert);

}  // namespace fathom

#endif  // FATHOM_MODEL_EXPERT_TRANSFER_H_
