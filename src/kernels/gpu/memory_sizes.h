// Sizes of the memory that GpuBackend allocates on a device, computed without a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/integer_math.h"
#include "kernels/backend.h"

namespace fathom::kernels {

// Alignment of the pieces that share an allocation.
inline constexpr std::int64_t kGpuPieceAlignment = 256;

// Compressed rows of a call are counted in multiples of this number: a launch stays the same while
// a sequence grows by 2,048 tokens, so that a driver recognises it.
inline constexpr std::int64_t kRowStep = 512;

// The most bytes of host lists that are uploaded together for a kernel.
inline constexpr std::int64_t kGpuStagedBytes = std::int64_t{256} << 10;

// The page size of a device's memory. Allocations from kGpuOwnPages bytes on do not share pages.
inline constexpr std::int64_t kGpuPage = std::int64_t{2} << 20;
inline constexpr std::int64_t kGpuOwnPages = std::int64_t{1} << 20;

// Returns the most bytes that an allocation takes. Drivers round allocations that share pages up to
// multiples of at most 512 bytes.
constexpr std::int64_t GpuAllocationBytes(std::int64_t bytes) {
  if (bytes >= kGpuOwnPages) return RoundUp(bytes, kGpuPage);
  return RoundUp(bytes, kGpuPieceAlignment) + kGpuPieceAlignment;
}

// Returns the most bytes of rows in the order of device/lane_rows.h.
std::int64_t GpuLaneRowBytes(std::int64_t rows, std::int64_t columns);

// Returns the bytes of one buffer that holds all pieces.
std::int64_t GpuPieceBytes(std::span<const std::span<const std::byte>> pieces);

// Returns the bytes of an expert's weights in the memory for a block's experts.
std::int64_t GpuExpertBytes(const ExpertWeights& expert);

// The buffers of Reserve, in bytes.
struct GpuScratchSizes {
  std::int64_t codes = 0;      // codes of quantised activations
  std::int64_t scales = 0;     // scales of the codes
  std::int64_t lane_rows = 0;  // few quantised activations
  std::int64_t embedded = 0;   // rows of an embedding in host memory
  std::int64_t hidden = 0;     // hidden activations of experts
  std::int64_t scores = 0;     // scores of compressed rows
  std::int64_t chains = 0;     // chains of the gates of hyper-connections
  std::int64_t attention = 0;  // lists of attention
  std::int64_t batch = 0;      // the batch of a step
  std::int64_t sampler = 0;    // sampler for rows of logits

  std::int64_t Total() const;
};
GpuScratchSizes GpuScratchFor(const StepLimits& limits);

// Returns the bytes that GpuBackend needs beside weights and scratch: staged lists, the tables of
// n_experts experts for each block, and the most that the buffers of experts take beyond
// GpuExpertBytes. block_experts: the bytes of all experts of each block.
std::int64_t GpuListBytes(std::span<const std::int64_t> block_experts, std::int64_t n_experts);

}  // namespace fathom::kernels
