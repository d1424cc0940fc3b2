#include "kernels/cpu/scratch.h"

#include <algorithm>
#include <utility>

#include "kernels/buffer_layout.h"
#include "kernels/cpu/scratch_bytes.h"
#include "kernels/host_buffer.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kMaxTileRows = 512;
// Room for all groups of a grouped product together for one token, each of which counts as a row;
// for more tokens, fewer groups at a time.
constexpr std::int64_t kMinTileRows = 16;

std::int64_t TileRows(const StepLimits& limits) {
  return std::clamp(limits.max_tokens, kMinTileRows, kMaxTileRows);
}

// Lays out the pieces; their memory comes from `memory`, which may only measure.
void LayOut(const StepLimits& limits, std::int64_t threads, BufferLayout& memory, Scratch& s) {
  const auto take = [&]<class T>(std::int64_t count, std::span<T>& piece) {
    T* const data = memory.Add<T>(count, 1).data;
    piece = {data, data == nullptr ? 0 : static_cast<std::size_t>(count)};
  };
  take(s.tile_rows * cpu::PreparedStride(limits.max_linear_inputs), s.activations);
  take(s.tile_rows * cpu::PaddedColumns(limits.max_linear_inputs) / kFp8Block, s.scales);
  const std::int64_t hyper_blocks =
      (kStreams * limits.hidden + cpu::kHyperBlock - 1) / cpu::kHyperBlock;
  take(std::min(limits.max_tokens, cpu::kHyperRows) * hyper_blocks * (kHcGates + 1),
       s.hyper_chains);
  const std::int64_t pairs = std::min(s.tile_rows, std::max<std::int64_t>(limits.max_tokens, 1)) *
                             limits.experts_per_token;
  take(pairs * limits.moe_intermediate, s.gate);
  take(pairs * limits.moe_intermediate, s.up);
  take(pairs * cpu::PreparedStride(limits.moe_intermediate), s.hidden);
  take(pairs * cpu::PaddedColumns(limits.moe_intermediate) / kFp8Block, s.hidden_scales);
  take(pairs, s.pair_tokens);
  take(pairs, s.pair_rows);
  take(limits.n_experts + 1, s.first_pair);
  take(2 * limits.n_experts, s.products);
  take(threads * (limits.sliding_window + std::max(limits.max_compressed_rows, limits.max_block)),
       s.keys);
  take(threads * cpu::AttentionScratch(limits.head_dim), s.attention);
  take(threads * limits.max_compressed_rows, s.row_scores);
  take(threads * limits.max_compressed_rows, s.row_order);
  take(threads * 2 * limits.n_experts, s.expert_scores);
  take(threads * std::max(limits.head_dim, kIndexDim), s.angles);
  take(threads * std::max(limits.head_dim, kIndexDim), s.row);
}

}  // namespace

std::int64_t CpuScratchBytes(const StepLimits& limits, int n_threads) {
  Scratch scratch;
  scratch.tile_rows = TileRows(limits);
  BufferLayout measure;
  LayOut(limits, n_threads, measure, scratch);
  return measure.bytes();
}

Result<Scratch> Scratch::Make(const StepLimits& limits, int n_threads) {
  Scratch scratch;
  scratch.tile_rows = TileRows(limits);
  Result<std::unique_ptr<Buffer>> buffer = AllocateHostBuffer(CpuScratchBytes(limits, n_threads));
  if (!buffer) return Unexpected(buffer.error());
  scratch.buffer = std::move(*buffer);
  BufferLayout memory(scratch.buffer->address(), scratch.buffer->bytes());
  LayOut(limits, n_threads, memory, scratch);
  return scratch;
}

}  // namespace fathom::kernels
