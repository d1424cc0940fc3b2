// The working memory of the CPU backend: one buffer, sized once from the StepLimits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/float_types.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernels.h"

namespace fathom::kernels {

// Owns the buffer; the spans are its pieces. Longer batches are processed in tiles of tile_rows,
// which bounds the size. "Per thread" pieces consist of n_threads equal parts.
struct Scratch {
  // Reserves the bytes; pages take memory when first touched.
  static Result<Scratch> Make(const StepLimits& limits, int n_threads);

  std::unique_ptr<Buffer> buffer;
  std::int64_t tile_rows = 0;

  std::span<float> activations;  // prepared rows: [tile_rows, PreparedStride(max_linear_inputs)]
  std::span<float> scales;       // their scales: [tile_rows, max_linear_inputs / 128]

  std::span<float> hyper_chains;  // chains of several rows: kernels.h

  // Experts, per (token, slot) of a tile of tokens, sorted by expert.
  std::span<Bf16> gate;                 // [pairs, moe_intermediate]
  std::span<Bf16> up;                   // [pairs, moe_intermediate]
  std::span<float> hidden;              // prepared: [pairs, PreparedStride(moe_intermediate)]
  std::span<float> hidden_scales;       // [pairs, moe_intermediate / 128]
  std::span<std::int32_t> pair_tokens;  // [pairs]: row of x
  std::span<std::int32_t> pair_rows;    // [pairs]: row of the output
  std::span<std::int32_t> first_pair;   // [n_experts + 1]
  std::span<cpu::Product> products;     // [2 * n_experts]

  std::span<const std::uint8_t*> keys;  // per thread: keys of one row
  std::span<float> attention;           // per thread: AttentionScratch(head_dim)
  std::span<float> row_scores;          // per thread: [max_compressed_rows]
  std::span<std::uint64_t> row_order;   // per thread: [max_compressed_rows]
  std::span<float> expert_scores;       // per thread: [2 * n_experts]
  std::span<float> angles;              // per thread: [max(head_dim, 128)]
  std::span<Bf16> row;                  // per thread: [max(head_dim, 128)]
};

// Returns piece `index` of `count` equal pieces.
template <class T>
std::span<T> Piece(std::span<T> all, int index, int count) {
  const std::size_t size = all.size() / static_cast<std::size_t>(count);
  return all.subspan(static_cast<std::size_t>(index) * size, size);
}

}  // namespace fathom::kernels
