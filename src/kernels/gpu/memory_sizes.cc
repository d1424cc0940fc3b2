#include "kernels/gpu/memory_sizes.h"

#include <algorithm>

#include "kernels/gpu/attention_lists.h"
#include "kernels/gpu/device/hyper_connection.h"
#include "kernels/gpu/device/lane_rows.h"
#include "kernels/gpu/device_sampler.h"
#include "kernels/gpu/step_batch.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kScoreBytes = std::int64_t{64} << 20;  // the most for scores of rows
constexpr std::int64_t kMostChainRows = 512;  // enough for all multiprocessors, even of the head
constexpr std::int64_t kListBytes = std::int64_t{64} << 20;  // the most for lists of attention

// Returns the bytes of the lists of as many rows of a call as there may be at a time.
std::int64_t ListBytes(const StepLimits& limits) {
  const std::int64_t rows = std::max(RoundUp(limits.max_attended_rows, kRowStep), limits.max_block);
  const gpu::AttentionListShape shape = {
      .heads = limits.attention_heads,
      .head_dim = limits.head_dim,
      .n_blocks = gpu::AttentionBlocks(limits.sliding_window + rows)};
  return gpu::AttentionListBytes(
      shape, std::clamp<std::int64_t>(kListBytes / gpu::AttentionRowBytes(shape), 1,
                                      std::max<std::int64_t>(1, limits.max_tokens)));
}

}  // namespace

std::int64_t GpuExpertBytes(const ExpertWeights& expert) {
  std::int64_t bytes = 0;
  for (const Weight* const w : {&expert.w1, &expert.w2, &expert.w3}) {
    bytes += RoundUp(std::int64_t{std::ssize(w->Bytes())}, kGpuPieceAlignment) +
             RoundUp(std::int64_t{std::ssize(w->ScaleBytes())}, kGpuPieceAlignment);
  }
  return bytes;
}

std::int64_t GpuLaneRowBytes(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kVectors = std::max(gpu::kNumberVectors, gpu::kDigitVectors);
  return rows * (columns / kFp8Block) * gpu::kQuadThreads * kVectors * gpu::kVectorBytes;
}

std::int64_t GpuPieceBytes(std::span<const std::span<const std::byte>> pieces) {
  std::int64_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) {
    bytes += RoundUp(std::int64_t{std::ssize(piece)}, kGpuPieceAlignment);
  }
  return bytes;
}

std::int64_t GpuScratchSizes::Total() const {
  std::int64_t total = 0;
  for (const std::int64_t bytes :
       {codes, scales, lane_rows, embedded, hidden, scores, chains, attention, batch, sampler}) {
    total += GpuAllocationBytes(bytes);
  }
  return total;
}

GpuScratchSizes GpuScratchFor(const StepLimits& limits) {
  constexpr auto kBf16 = static_cast<std::int64_t>(sizeof(Bf16));
  constexpr auto kScore = static_cast<std::int64_t>(sizeof(std::uint32_t));
  const std::int64_t hidden =
      limits.max_tokens * limits.experts_per_token * limits.moe_intermediate;
  const std::int64_t codes = std::max(limits.max_tokens * limits.max_linear_inputs, hidden);
  const std::int64_t row_bytes = std::max<std::int64_t>(1, limits.max_compressed_rows) * kScore;
  const std::int64_t scored_tokens = std::clamp<std::int64_t>(
      kScoreBytes / row_bytes, 1, std::max<std::int64_t>(1, limits.max_tokens));
  return {.codes = codes,
          .scales = std::max(codes, gpu::kFewRows * limits.max_linear_inputs) / kFp8Block *
                    static_cast<std::int64_t>(sizeof(float)),
          .lane_rows = GpuLaneRowBytes(gpu::kFewRows, limits.max_linear_inputs),
          .embedded = limits.max_tokens * limits.hidden * kBf16,
          .hidden = hidden * kBf16,
          .scores = scored_tokens * row_bytes,
          .chains = std::min(limits.max_tokens, kMostChainRows) *
                    gpu::RowOfChainsBytes(kStreams * limits.hidden),
          .attention = ListBytes(limits),
          .batch = StepBatch::BytesFor(limits.max_tokens),
          .sampler = DeviceSampler::BytesFor(limits.max_logit_rows, limits.vocabulary)};
}

// A block with only some of its experts can waste as much as a block with all of them: up to a
// page.
std::int64_t GpuListBytes(std::span<const std::int64_t> block_experts, std::int64_t n_experts) {
  constexpr auto kRow = static_cast<std::int64_t>(sizeof(ExpertWeights));
  std::int64_t bytes =
      GpuAllocationBytes(kGpuStagedBytes) + GpuAllocationBytes(sizeof(std::uint64_t));
  for (const std::int64_t experts : block_experts) {
    bytes += GpuAllocationBytes(n_experts * kRow) +
             (experts >= kGpuOwnPages ? kGpuPage : kGpuPieceAlignment);
  }
  return bytes;
}

}  // namespace fathom::kernels
