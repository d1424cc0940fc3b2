// The inputs and outputs of a step: the batch, and the cached state of a layer for the batch's
// sequences. Plain views; kv_cache owns the memory, including the block tables. The memory belongs
// to the backend: the host computes addresses of rows, but reads no rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/key_layout.h"

namespace fathom::kernels {

inline constexpr int kStreams = 4;  // hc_mult: residual streams per token

// Consecutive positions of one sequence inside a batch.
struct Segment {
  std::int32_t sequence = 0;   // slot in the caches
  std::int32_t first_row = 0;  // row of the batch
  std::int32_t n_tokens = 0;
  std::int32_t first_position = 0;  // position of the first token; the others follow
};

// The tokens of one step: any mix of sequences, prefill chunks and single tokens. A sequence has at
// most one segment in a batch. All spans but `segments` have one element per row.
struct BatchView {
  std::span<const Token> tokens;
  std::span<const std::int32_t> positions;
  std::span<const std::int32_t> segment_of_row;
  std::span<const Segment> segments;

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  const Segment& FindSegment(std::int64_t row) const {
    return segments[static_cast<std::size_t>(segment_of_row[static_cast<std::size_t>(row)])];
  }
  // Returns some of the rows, with all segments, whose row numbers still count in the whole batch.
  BatchView Rows(std::int64_t first, std::int64_t count) const {
    const auto some = [&](auto of_rows) {
      return of_rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    return {some(tokens), some(positions), some(segment_of_row), segments};
  }
};

// cos and sin of position * frequency for every row of a batch: [t, rope_dims / 2] each.
struct RopeRows {
  Matrix<const float> cos;
  Matrix<const float> sin;
};

// Rows of all sequences, in blocks of memory anywhere in a pool, which sequences may share: row r
// of sequence s is row r % rows_per_block of block
// table[s * table_width + r / rows_per_block].
inline constexpr std::int32_t kNoBlock = -1;
// Positions of a block: the smallest multiple of both ratios.
inline constexpr std::int64_t kBlockTokens = 128;
struct BlockRows {
  std::uint8_t* data = nullptr;   // address of block 0
  std::int64_t block_stride = 0;  // bytes between adjacent blocks
  std::int64_t rows_per_block = 1;
  std::int64_t row_bytes = 0;  // 0: there are no rows
  const std::int32_t* table = nullptr;
  std::int64_t table_width = 0;

  // Returns the most rows of a sequence.
  constexpr std::int64_t Capacity() const { return table_width * rows_per_block; }
  // Returns the address of a row; null where the sequence has no block.
  constexpr std::uint8_t* Row(std::int32_t sequence, std::int64_t row) const {
    const std::int32_t block = table[sequence * table_width + row / rows_per_block];
    return block == kNoBlock ? nullptr
                             : data + block * block_stride + row % rows_per_block * row_bytes;
  }
};

// Cached keys, FP8-simulated: kernels/key_layout.h.
struct KeyRows {
  BlockRows blocks;  // rows of KeyBytes(layout) bytes
  KeyLayout layout;

  constexpr std::uint8_t* Row(std::int32_t sequence, std::int64_t row) const {
    return blocks.Row(sequence, row);
  }
};

// The window keys of every sequence: position p is row p. A sequence has the blocks of positions
// that a query may still see; keys stored at other positions are dropped.
struct WindowCache {
  KeyRows rows;
  // Draft layers store the key of position p in row p + 1, since it depends on the token at p + 1:
  // so the rows of a block depend only on the tokens of this block and of the blocks before.
  std::int64_t row_of_position_0 = 0;

  constexpr std::uint8_t* Row(std::int32_t sequence, std::int64_t position) const {
    return rows.Row(sequence, position + row_of_position_0);
  }
};

// The rows of a sequence that a cache has: every n-th row, beginning with row `rank`. Other ranks
// have the other rows.
struct CacheShard {
  int rank = 0;
  int n = 1;

  constexpr bool Has(std::int64_t row) const { return row % n == rank; }
  // Convert between a row of the sequence and its place in the share.
  constexpr std::int64_t ToPlace(std::int64_t row) const { return row / n; }
  constexpr std::int64_t RowIn(std::int64_t place) const { return place * n + rank; }
  // Returns how many of rows [0, end) are in the share.
  constexpr std::int64_t CountBefore(std::int64_t end) const { return (end + n - 1 - rank) / n; }
};

// A compressed row of a sequence.
struct SequenceRow {
  std::int32_t sequence = 0;
  std::int32_t row = 0;
};

// The inputs of a compressor for one position: a number per channel each.
struct CompressorInputs {
  float* values = nullptr;
  float* scores = nullptr;
};

// One compressor: its finished rows, and the inputs of recent tokens from which the next row is
// made. Row w covers positions ratio * w ... ratio * w + ratio - 1 (and, with ratio 4, the window
// before).
struct CompressorCache {
  int ratio = 0;  // 4 (two overlapping windows, inputs of 2 * width) or 128 (inputs of width)
  CacheShard share;
  // Finished rows: place i of the share is row i of the blocks. Exactly one member is set:
  KeyRows rows;           // main compressor
  BlockRows packed_rows;  // indexer: 68 bytes a row, see kPackedIndexBytes
  // The inputs of position p of sequence s are row s * tail_slots + p % tail_slots.
  Matrix<float> tail_values;  // u * wkv
  Matrix<float> tail_scores;  // u * wgate + ape[p % ratio]
  std::int64_t tail_slots = 0;
  // Ratio 4: the inputs of the last 4 positions of every block, as far as the row after the block
  // needs them: `width` values, then as many scores, of the first half of the channels. A sequence
  // that begins with a block of another sequence finds them here. No rows: only the tail is used.
  BlockRows boundary_rows;

  // Returns the inputs of `position`, which a step that begins at first_position needs for its
  // rows; for a position of an earlier block, only the first half of the channels, or nulls where
  // the block is not cached. Before, Keep and KeepBoundary are for backends that compute on the
  // host.
  CompressorInputs Before(std::int32_t sequence, std::int64_t position,
                          std::int64_t first_position) const {
    if (boundary_rows.row_bytes > 0 && position / kBlockTokens < first_position / kBlockTokens) {
      return Boundary(sequence, position);
    }
    const std::int64_t row = sequence * tail_slots + position % tail_slots;
    return {tail_values.Row(row), tail_scores.Row(row)};
  }
  // Stores the inputs of `position`. To be called for the positions of one step, at least the
  // newest tail_slots, in ascending order, after the step's rows are made.
  void Keep(std::int32_t sequence, std::int64_t position, const float* values,
            const float* scores) const {
    const std::int64_t row = sequence * tail_slots + position % tail_slots;
    std::copy_n(values, tail_values.cols, tail_values.Row(row));
    std::copy_n(scores, tail_scores.cols, tail_scores.Row(row));
  }
  // Stores the boundary rows of blocks: to be called for every position of a step that is among the
  // last positions of its block.
  void KeepBoundary(std::int32_t sequence, std::int64_t position, const float* values,
                    const float* scores) const {
    const CompressorInputs kept = Boundary(sequence, position);
    if (kept.values != nullptr) {
      std::copy_n(values, tail_values.cols / 2, kept.values);
      std::copy_n(scores, tail_scores.cols / 2, kept.scores);
    }
  }
  constexpr bool IsBoundary(std::int64_t position) const {
    return boundary_rows.row_bytes > 0 && position % kBlockTokens >= kBlockTokens - ratio;
  }

  constexpr bool IsPacked() const { return packed_rows.row_bytes > 0; }
  // Returns the most rows of a sequence, including rows of other ranks.
  constexpr std::int64_t Capacity() const {
    return share.n * (IsPacked() ? packed_rows.Capacity() : rows.blocks.Capacity());
  }
  constexpr std::int64_t Overlap() const { return ratio == 4 ? 2 : 1; }
  // Returns the number of tokens that one row is made of.
  constexpr std::int64_t Span() const { return ratio * Overlap(); }

 private:
  // Returns the boundary inputs; nulls where the sequence has no block.
  CompressorInputs Boundary(std::int32_t sequence, std::int64_t position) const {
    const std::int64_t row = position / kBlockTokens * ratio + position % ratio;
    auto* values = reinterpret_cast<float*>(boundary_rows.Row(sequence, row));
    return {values, values == nullptr ? nullptr : values + tail_values.cols / 2};
  }
};

// An indexer vector of 128 numbers, Hadamard-rotated and FP4: 64 bytes of E2M1 pairs (2j in the low
// nibble), then 4 E8M0 bytes, one per 32 numbers.
inline constexpr std::int64_t kIndexDim = 128;
inline constexpr std::int64_t kPackedIndexBytes = kIndexDim / 2 + kIndexDim / 32;

// All cached state of one layer (of one cache group), for all sequences.
struct LayerCache {
  int ratio = 0;  // 0, 4 or 128
  WindowCache window;
  CompressorCache compressor;  // ratio 4 and 128
  CompressorCache indexer;     // ratio 4
};

// Returns the number of slots that a ring of `window` positions has filled when it holds the
// positions before `end`, and the position in a slot.
constexpr std::int32_t FilledSlots(std::int32_t end, std::int32_t window) {
  return end < window ? end : window;
}
constexpr std::int32_t PositionInRing(std::int32_t slot, std::int32_t end, std::int32_t window) {
  // Computed unsigned, which takes fewer registers of a GPU.
  const auto next_slot = static_cast<std::int32_t>(static_cast<std::uint32_t>(end) %
                                                   static_cast<std::uint32_t>(window));
  return end - next_slot + slot - (slot < next_slot ? 0 : window);
}

// Returns how many compressed rows the query at `position` may see (docs/spec/model.md 5.4).
constexpr std::int64_t VisibleRows(std::int64_t position, int ratio) {
  return ratio == 0 ? 0 : (position + 1) / ratio;
}

}  // namespace fathom::kernels
