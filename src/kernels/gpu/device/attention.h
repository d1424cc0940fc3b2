// Arguments of the kernels in attention_*.cu and window_keys.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/layer_cache.h"

namespace fathom::kernels::gpu {

inline constexpr int kAttentionBlock = 64;        // slots that share one maximum
inline constexpr std::int64_t kScoreChain = 128;  // dimensions per fma chain of a score

// Lists that the kernels of attention hand on to each other, for some rows of a call. Rows have
// n_blocks blocks of slots, at least as many as their slots fill.
struct AttentionLists {
  std::int64_t* keys = nullptr;   // [rows, slots]: KeyAddress
  float* weights = nullptr;       // [rows, heads, slots]: scores, then probabilities bf(p)
  float* factors = nullptr;       // [rows, heads, n_blocks]: what a block multiplies o by
  float* denominators = nullptr;  // [rows, heads]
  std::int32_t* ends = nullptr;   // [rows]: how many blocks end with the last one that has a key
  Bf16* masked = nullptr;         // [head_dim]: the key of masked slots, -0
  std::int64_t n_blocks = 0;

  constexpr std::int64_t Slots() const { return n_blocks * kAttentionBlock; }
};

// Attention for rows first_row ... first_row + n_rows - 1, by three kernels. Scores: a block of
// threads for 64 slots and some heads of a row, rows slowest, heads fastest. Weights: a block per
// head of a row. Values: a block for some dimensions of some heads of a row, heads fastest.
struct AttentionArguments {
  Matrix<const Bf16> q;     // [t, heads * head_dim]
  Matrix<const Bf16> keys;  // the batch's own keys [rows of the batch, head_dim]
  Matrix<const std::int32_t> selected;
  Matrix<const std::uint8_t> gathered;
  const float* sinks = nullptr;
  std::int64_t heads = 0;
  std::int64_t sliding_window = 0;
  RopeRows rope;
  float scale = 0.0f;  // 1 / sqrt(head_dim)
  DeviceBatch batch;
  WindowCache window;
  KeyRows compressed;
  int ratio = 0;
  Matrix<Bf16> out;
  std::uint64_t* fault = nullptr;
  std::int64_t first_row = 0;
  std::int64_t n_rows = 0;
  AttentionLists lists;
  bool reads_words = false;  // keys and queries are words of 8 bytes: AreWords
};

// The shape of the blocks that compute scores or values.
struct AttentionShape {
  int threads = 0;
  int heads = 0;
  int dims = 0;   // values: dimensions of a block
  int slots = 0;  // values: slots that are widened together
};
// Few rows are spread over many small blocks; with many rows, a thread computes more and loads
// less.
inline constexpr AttentionShape kScoreShape = {.threads = 256, .heads = 8};
inline constexpr AttentionShape kWideScoreShape = {.threads = 256, .heads = 16};
inline constexpr AttentionShape kValueShape = {.threads = 64, .heads = 16, .dims = 16, .slots = 64};
inline constexpr AttentionShape kWideValueShape = {
    .threads = 128, .heads = 16, .dims = 128, .slots = 32};

// Runs a block per row of keys.
struct AppendWindowArguments {
  Matrix<const Bf16> keys;
  DeviceBatch batch;
  WindowCache cache;
};

// Runs a block per row of out.
struct CopyRowsArguments {
  const SequenceRow* rows = nullptr;
  KeyRows cached;
  CacheShard share;
  Matrix<std::uint8_t> out;
};

}  // namespace fathom::kernels::gpu
