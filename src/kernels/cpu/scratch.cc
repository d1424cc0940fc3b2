#include "kernels/cpu/scratch.h"

#include <algorithm>
#include <utility>

#include "kernels/host_buffer.h"

namespace fathom {
namespace {

constexpr std::int64_t kMaxTileRows = 256;
// All groups of wo_a at once, each of which counts as a row, for one token; fewer at once for more.
constexpr std::int64_t kMinTileRows = 16;

// Hands out pieces of memory; without a base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  void Take(std::int64_t count, std::span<T>& piece) {
    used_ = (used_ + 63) / 64 * 64;
    if (base_ != nullptr) {
      piece = {reinterpret_cast<T*>(base_ + used_), static_cast<std::size_t>(count)};
    }
    used_ += count * static_cast<std::int64_t>(sizeof(T));
  }

  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

std::int64_t Carve(const StepLimits& limits, std::int64_t threads, std::byte* base, Scratch& s) {
  Carver carver(base);
  carver.Take(s.tile_rows * cpu::PreparedStride(limits.max_linear_inputs), s.activations);
  carver.Take(s.tile_rows * cpu::PaddedColumns(limits.max_linear_inputs) / kFp8Block, s.scales);
  const std::int64_t hyper_blocks =
      (kStreams * limits.hidden + cpu::kHyperBlock - 1) / cpu::kHyperBlock;
  carver.Take(std::min(limits.max_tokens, cpu::kHyperFewRows) * hyper_blocks * cpu::kHyperLanes,
              s.hyper_chains);
  const std::int64_t pairs = std::min(s.tile_rows, std::max<std::int64_t>(limits.max_tokens, 1)) *
                             limits.experts_per_token;
  carver.Take(pairs * limits.moe_intermediate, s.gate);
  carver.Take(pairs * limits.moe_intermediate, s.up);
  carver.Take(pairs * cpu::PreparedStride(limits.moe_intermediate), s.hidden);
  carver.Take(pairs * cpu::PaddedColumns(limits.moe_intermediate) / kFp8Block, s.hidden_scales);
  carver.Take(pairs, s.pair_tokens);
  carver.Take(pairs, s.pair_rows);
  carver.Take(limits.n_experts + 1, s.first_pair);
  carver.Take(2 * limits.n_experts, s.products);
  carver.Take(threads * (limits.sliding_window + limits.max_compressed_rows), s.keys);
  carver.Take(threads * cpu::AttentionScratch(limits.head_dim), s.attention);
  carver.Take(threads * limits.max_compressed_rows, s.row_scores);
  carver.Take(threads * limits.max_compressed_rows, s.row_order);
  carver.Take(threads * 2 * limits.n_experts, s.expert_scores);
  carver.Take(threads * std::max(limits.head_dim, kIndexDim), s.angles);
  carver.Take(threads * std::max(limits.head_dim, kIndexDim), s.row);
  return carver.used();
}

}  // namespace

Result<Scratch> Scratch::Make(const StepLimits& limits, int n_threads) {
  Scratch scratch;
  scratch.tile_rows = std::clamp(limits.max_tokens, kMinTileRows, kMaxTileRows);
  const std::int64_t bytes = Carve(limits, n_threads, nullptr, scratch);
  Result<std::unique_ptr<Buffer>> buffer = AllocateHostBuffer(bytes);
  if (!buffer) {
    return Unexpected(buffer.error());
  }
  scratch.buffer = std::move(*buffer);
  Carve(limits, n_threads, scratch.buffer->bytes().data(), scratch);
  return scratch;
}

}  // namespace fathom
