// What has to travel when the replicas of a block move, and where it lies on arrival.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "experts/balance/expert_placement.h"
#include "kernels/weight_format.h"

namespace fathom {

// One expert from a rank that has it to one that is to have it.
struct ExpertTransfer {
  std::int32_t expert = 0;
  int from = 0;
  int to = 0;
  friend bool operator==(const ExpertTransfer&, const ExpertTransfer&) = default;
};

// Rounds in which every rank sends at most one expert and is sent at most one. What a rank has
// already it is not sent, and ranks that have the same expert take turns in sending it. The same on
// all ranks.
std::vector<std::vector<ExpertTransfer>> PlanTransfers(const ReplicaMap& from,
                                                       const ReplicaMap& to);

// Bytes of an expert's matrices and scales, each at a multiple of 64, whether they are here or not.
std::int64_t BytesOf(const ExpertWeights& expert);

struct ByteRange {
  std::int64_t first = 0;
  std::int64_t size = 0;
  std::int64_t end() const { return first + size; }
};

// Where its six pieces lie in memory of its own [BytesOf]: of w1, w2 and w3 the scales, perhaps
// none, and behind them the matrix.
std::array<ByteRange, 6> LayoutOf(const ExpertWeights& expert);

// The expert with its bytes in `memory`, as LayoutOf says.
ExpertWeights BindTo(const ExpertWeights& expert, std::span<const std::byte> memory);

// All of BytesOf an expert that lies in `memory` as BindTo puts it.
std::span<std::byte> MemoryOf(const ExpertWeights& expert, std::span<std::byte> memory);

// The bytes themselves, in the order of LayoutOf.
std::array<std::span<const std::byte>, 6> PiecesOf(const ExpertWeights& expert);

}  // namespace fathom
