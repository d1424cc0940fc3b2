// Plans the transfers that move the replicas of a block, and lays out an expert that arrives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "experts/balance/expert_placement.h"
#include "kernels/weight_format.h"

namespace fathom::experts {

// The transfer of one expert from a rank that has it to a rank that needs it.
struct ExpertTransfer {
  std::int32_t expert = 0;
  int from = 0;
  int to = 0;
  friend bool operator==(const ExpertTransfer&, const ExpertTransfer&) = default;
};

// Returns rounds in which every rank sends at most one expert and receives at most one. A rank
// receives no expert that it has, and ranks that have the same expert take turns to send it. The
// result is the same on all ranks.
std::vector<std::vector<ExpertTransfer>> PlanTransfers(const ReplicaMap& from,
                                                       const ReplicaMap& to);

// Returns the bytes of an expert's matrices and scales, each at a multiple of 64; the expert may
// have no data.
std::int64_t SizeInBytes(const ExpertWeights& expert);

struct ByteRange {
  std::int64_t first = 0;
  std::int64_t size = 0;
  std::int64_t end() const { return first + size; }
};

// Returns the layout of an expert in its own memory [SizeInBytes]: for w1, w2 and w3 the scales (if
// any), then the matrix.
std::array<ByteRange, 6> MakeExpertLayout(const ExpertWeights& expert);

// Returns the expert with its data in `memory`, in the layout of MakeExpertLayout.
ExpertWeights BindTo(const ExpertWeights& expert, std::span<const std::byte> memory);

// Returns the bytes of an expert that is in `memory` in the layout of MakeExpertLayout.
std::span<std::byte> PlacedBytes(const ExpertWeights& expert, std::span<std::byte> memory);

// Returns the bytes of an expert's data, in the order of MakeExpertLayout.
std::array<std::span<const std::byte>, 6> DataPieces(const ExpertWeights& expert);

}  // namespace fathom::experts
