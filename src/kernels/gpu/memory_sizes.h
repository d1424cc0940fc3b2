// Sizes of the memory that GpuBackend allocates on a device, known without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/integer_math.h"
#include "kernels/backend.h"

namespace fathom {

// Alignment of the pieces that share an allocation.
inline constexpr std::int64_t kGpuPieceAlignment = 256;

// Lists of the host that are uploaded for a kernel, at most at once.
inline constexpr std::int64_t kGpuStagedBytes = std::int64_t{256} << 10;

// The pages of memory of a device, which allocations from kGpuOwnPages bytes on do not share.
inline constexpr std::int64_t kGpuPage = std::int64_t{2} << 20;
inline constexpr std::int64_t kGpuOwnPages = std::int64_t{1} << 20;

// Returns the most that an allocation takes. Drivers round the ones that share pages up to
// multiples of at most 512 bytes.
constexpr std::int64_t GpuAllocationBytes(std::int64_t bytes) {
  if (bytes >= kGpuOwnPages) return RoundUp(bytes, kGpuPage);
  return RoundUp(bytes, kGpuPieceAlignment) + kGpuPieceAlignment;
}

// Returns the bytes of one buffer that holds all pieces.
std::int64_t GpuPieceBytes(std::span<const std::span<const std::byte>> pieces);

// Returns what the weights of an expert take of the memory for a block's experts.
std::int64_t GpuExpertBytes(const ExpertWeights& expert);

// The buffers of Reserve, in bytes.
struct GpuScratchSizes {
  std::int64_t codes = 0;     // of quantised activations
  std::int64_t scales = 0;    // of the codes
  std::int64_t embedded = 0;  // rows of an embedding of the host
  std::int64_t hidden = 0;    // of experts
  std::int64_t scores = 0;    // of compressed rows
  std::int64_t batch = 0;     // of a step
  std::int64_t sampler = 0;   // of rows of logits

  std::int64_t Total() const;
};
GpuScratchSizes GpuScratchFor(const StepLimits& limits);

// Returns what GpuBackend keeps beside weights and scratch: staged lists, the tables of n_experts
// experts for each block, and the most that the buffers of experts take beyond GpuExpertBytes.
// block_experts: the bytes of all experts of each block.
std::int64_t GpuListBytes(std::span<const std::int64_t> block_experts, std::int64_t n_experts);

}  // namespace fathom
