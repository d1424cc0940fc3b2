// Operations that read or write the cached state of sequences: every backend gives the bits of
// the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/reference/quantize.h"
#include "kernels/rope.h"
#include "tests/kernels/conformance.h"

namespace fathom::kernels::conformance {
namespace {

class ConformanceCache : public Conformance {};

constexpr std::int64_t kSequences = 3;

// Blocks of every sequence in an order of their own, so that neighbours lie apart.
struct Blocks {
  std::int64_t rows_per_block;
  std::int64_t table_width;
  std::pmr::vector<std::int32_t> table;  // read by the backend

  Blocks(Data& data, std::int64_t capacity, std::int64_t per_block)
      : rows_per_block(per_block), table_width((capacity + per_block - 1) / per_block) {
    table.resize(static_cast<std::size_t>(kSequences * table_width));
    std::iota(table.begin(), table.end(), 0);
    for (std::size_t i = table.size(); i > 1; --i) {
      std::swap(table[i - 1],
                table[static_cast<std::size_t>(data.Integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }
  std::int64_t n_rows() const { return std::ssize(table) * rows_per_block; }
  // A gap of 24 bytes follows every block.
  std::int64_t Stride(std::int64_t row_bytes) const { return rows_per_block * row_bytes + 24; }
  std::int64_t Bytes(std::int64_t row_bytes) const { return std::ssize(table) * Stride(row_bytes); }
  BlockRows Rows(std::uint8_t* memory, std::int64_t row_bytes) const {
    return {.data = memory,
            .block_stride = Stride(row_bytes),
            .rows_per_block = rows_per_block,
            .row_bytes = row_bytes,
            .table = table.data(),
            .table_width = table_width};
  }
};

// Three sequences: a prompt from the start, a chunk in the middle, one token.
Batch MixedBatch(std::int32_t prompt, std::int32_t start, std::int32_t chunk, std::int32_t single) {
  Batch batch;
  batch.Add(1, 0, prompt);
  batch.Add(0, start, chunk);
  batch.Add(2, single, 1);
  return batch;
}

// Keys from infinity to NaN: what is stored is what simulation gives, and nothing where a sequence
// has no block.
TEST_P(ConformanceCache, AppendWindow) {
  Data data(6);
  Blocks blocks(data, 100, 16);
  blocks.table[2] = blocks.table[9] = kNoBlock;
  const float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {infinity, -infinity, std::nanf(""), -std::nanf(""), -0.0f, 3e38f};
  for (const Kind kind : kKinds) {
    for (const KeyLayout& layout : {KeyLayout{512, 64}, KeyLayout{128, 64}, KeyLayout{64, 64},
                                    KeyLayout{70, 6}, KeyLayout{64, 0}, KeyLayout{90, 7}}) {
      for (const Batch& batch : {MixedBatch(100, 77, 3, 40), MixedBatch(1, 39, 2, 0)}) {
        Array<Bf16> keys = data.Bf16s(batch.n() * layout.head_dim, kind);
        for (const float x : special) {
          keys.all()[static_cast<std::size_t>(data.Integer(0, batch.n() * layout.head_dim - 1))] =
              ToBf16(x);
        }
        for (const std::int64_t row_of_position_0 : {0, 1}) {
          ExpectSame(
              fmt::format("{} dimensions, {} rotated", layout.head_dim, layout.rope_dims),
              [&](Backend& backend) {
                Array<std::uint8_t> rows(blocks.Bytes(KeyBytes(layout)));
                WindowCache cache = {.rows = {blocks.Rows(rows.data(), KeyBytes(layout)), layout},
                                     .row_of_position_0 = row_of_position_0};
                BeginStep(backend, batch);
                backend.AppendWindow(keys.As(batch.n(), layout.head_dim), batch.View(), cache);
                return ReadBytes(backend, rows);
              });
        }
      }
    }
  }
}

struct CompressCase {
  int ratio = 4;
  bool packed = false;
  std::int64_t width = 128;
  std::int64_t pairs = 32;
  bool boundary = false;  // with rows of the ends of blocks
  CacheShard share{};
};

class ConformanceCompress : public ConformanceCache {
 protected:
  void Compare(Data& data, const CompressCase& c, const Batch& batch, Kind kind) {
    CompressorCache shape;
    shape.ratio = c.ratio;
    const std::int64_t inputs = shape.Overlap() * c.width;
    const std::int64_t slots = shape.Span() + 3;
    const Blocks blocks(data, 200 / c.share.n, 128 / c.ratio / c.share.n);
    const std::int64_t t = batch.n();
    const Array<float> values = data.Floats(t * inputs, kind);
    const Array<float> scores = data.Floats(t * inputs, kind);
    const Array<float> ape = data.Floats(c.ratio * inputs);
    const Array<Bf16> norm = data.Bf16s(c.width);
    Array<float> tail_values = data.Floats(kSequences * slots * inputs, kind);
    Array<float> tail_scores = data.Floats(kSequences * slots * inputs, kind);
    Blocks ends(data, blocks.table_width * c.ratio, c.ratio);
    const std::int64_t end_bytes = 2 * c.width * static_cast<std::int64_t>(sizeof(float));
    const Array<float> end_rows = data.Floats(c.boundary ? ends.Bytes(end_bytes) / 4 : 0, kind);
    if (c.boundary) {
      // Sequence 1 begins at 0, so nothing of its tail is read. Tail inputs in earlier blocks are
      // not read for the other sequences either.
      ends.table[static_cast<std::size_t>(ends.table_width)] = kNoBlock;
      for (const Segment& segment : batch.segments) {
        const std::int64_t block = segment.first_position / kBlockTokens * kBlockTokens;
        for (std::int64_t p = std::max<std::int64_t>(0, segment.first_position - slots); p < block;
             ++p) {
          const std::int64_t row = segment.sequence * slots + p % slots;
          std::fill_n(tail_values.data() + row * inputs, inputs, std::nanf(""));
          std::fill_n(tail_scores.data() + row * inputs, inputs, std::nanf(""));
        }
      }
    }
    Array<float> frequencies(c.pairs);
    if (c.pairs > 0) {
      std::ranges::copy(RopeFrequencies(2 * c.pairs, 160000.0f, {}), frequencies.data());
    }
    ExpectSame(fmt::format("ratio {} width {} t {}", c.ratio, c.width, t), [&](Backend& backend) {
      Array<float> new_scores = scores;
      Array<float> new_tail_values = tail_values;
      Array<float> new_tail_scores = tail_scores;
      Array<float> new_end_rows = end_rows;
      const KeyLayout layout = {c.width, 2 * c.pairs};
      const std::int64_t row_bytes = c.packed ? kPackedIndexBytes : KeyBytes(layout);
      Array<std::uint8_t> rows(blocks.Bytes(row_bytes));
      CompressorCache cache = {
          .ratio = c.ratio,
          .share = c.share,
          .rows = c.packed ? KeyRows() : KeyRows{blocks.Rows(rows.data(), row_bytes), layout},
          .packed_rows = c.packed ? blocks.Rows(rows.data(), row_bytes) : BlockRows(),
          .tail_values = new_tail_values.As(kSequences * slots, inputs),
          .tail_scores = new_tail_scores.As(kSequences * slots, inputs),
          .tail_slots = slots};
      if (c.boundary) {
        cache.boundary_rows =
            ends.Rows(reinterpret_cast<std::uint8_t*>(new_end_rows.data()), end_bytes);
      }
      BeginStep(backend, batch);
      backend.Compress({.values = values.As(t, inputs),
                        .scores = new_scores.As(t, inputs),
                        .ape = ape.data(),
                        .norm = norm.all(),
                        .norm_eps = 1e-6f,
                        .frequencies = frequencies.all()},
                       batch.View(), cache);
      return ReadBytes(backend, new_scores, rows, new_tail_values, new_tail_scores, new_end_rows);
    });
  }
};

TEST_P(ConformanceCompress, AllKinds) {
  Data data(1);
  for (const Kind kind : kKinds) {
    for (const CompressCase& c : {CompressCase{4, false, 128, 32}, CompressCase{4, true, 128, 32},
                                  CompressCase{4, false, 74, 5}, CompressCase{128, false, 128, 32},
                                  CompressCase{128, false, 64, 0}}) {
      Compare(data, c, MixedBatch(9, 5, 14, 127), kind);
      Compare(data, c, MixedBatch(1, 255, 1, 3), kind);
      Compare(data, c, MixedBatch(130, 120, 137, 511), kind);
    }
  }
  Compare(data, {}, Batch(), Kind::kNormal);
}

TEST_P(ConformanceCompress, SomeOfTheRows) {
  Data data(9);
  for (const CacheShard& share : {CacheShard{0, 2}, CacheShard{3, 4}, CacheShard{31, 32}}) {
    for (const bool packed : {false, true}) {
      const CompressCase c = {.packed = packed, .share = share};
      Compare(data, c, MixedBatch(9, 5, 14, 127), Kind::kNormal);
      Compare(data, c, MixedBatch(130, 120, 137, 511), Kind::kNormal);
    }
  }
}

// Steps that begin at a border, behind a border, and before a border; steps that cross one border
// and two.
TEST_P(ConformanceCompress, BehindTheEndsOfBlocks) {
  Data data(7);
  for (const Kind kind : kKinds) {
    for (CompressCase c : {CompressCase{4, false, 128, 32}, CompressCase{4, true, 128, 32},
                           CompressCase{4, false, 74, 5}, CompressCase{4, false, 90, 7}}) {
      c.boundary = true;
      Compare(data, c, MixedBatch(130, 128, 5, 387), kind);
      Compare(data, c, MixedBatch(3, 130, 2, 255), kind);
      Compare(data, c, MixedBatch(127, 120, 137, 384), kind);
      Compare(data, c, MixedBatch(1, 123, 6, 513), kind);
    }
  }
}

// The inputs of the choice of rows, for one batch.
class ConformanceIndex : public ConformanceCache {
 protected:
  // Calls compare(batch, heads, queries, weights, cache) for batches and numbers of heads of many
  // kinds.
  template <class Compare>
  void ForInputs(Data& data, const Compare& compare) {
    const Blocks blocks(data, 600, 32);
    for (const std::int64_t heads : {1, 4, 16, 20, 64}) {
      // Few scale values: equal scores are frequent.
      Array<std::uint8_t> cached = data.Bytes(blocks.Bytes(kPackedIndexBytes), 0, 255);
      const CompressorCache cache = {.ratio = 4,
                                     .packed_rows = blocks.Rows(cached.data(), kPackedIndexBytes)};
      for (std::int32_t sequence = 0; sequence < kSequences; ++sequence) {
        for (std::int64_t row = 0; row < cache.Capacity(); ++row) {
          SetScales(data, cache.packed_rows.Row(sequence, row), 126, 127);
        }
      }
      Batch single;  // whose rows the threads share
      single.Add(2, 2003, 1);
      for (const Batch& batch :
           {MixedBatch(40, 800, 9, 2000), MixedBatch(1, 1999, 1, 77), single}) {
        const std::int64_t t = batch.n();
        Array<std::uint8_t> queries = data.Bytes(t * heads * kPackedIndexBytes, 0, 255);
        for (std::int64_t i = 0; i < t * heads; ++i) {
          SetScales(data, queries.data() + i * kPackedIndexBytes, 100, 140);
        }
        Array<Bf16> weights = data.Bf16s(t * heads);
        // Scores that are all -inf, some infinite, all equal, and mostly negative.
        const float infinity = std::numeric_limits<float>::infinity();
        if (t > 1) {
          weights.all()[0] = ToBf16(std::nanf(""));
          weights.all()[static_cast<std::size_t>(heads)] = ToBf16(infinity);
          std::fill_n(weights.data() + (t - 1) * heads, heads, ToBf16(0.0f));
          std::fill_n(weights.data() + (t - 2) * heads, heads, ToBf16(-1.5f));
        }
        compare(batch, heads, std::as_const(queries), std::as_const(weights), cache);
      }
    }
  }

 private:
  static void SetScales(Data& data, std::uint8_t* packed, std::int64_t first, std::int64_t last) {
    for (std::int64_t g = 64; g < kPackedIndexBytes; ++g) {
      packed[g] = static_cast<std::uint8_t>(data.Integer(first, last));
    }
  }
};

TEST_P(ConformanceIndex, SelectRows) {
  Data data(2);
  ForInputs(data, [&](const Batch& batch, std::int64_t heads, const Array<std::uint8_t>& queries,
                      const Array<Bf16>& weights, const CompressorCache& cache) {
    const std::int64_t t = batch.n();
    for (const std::int64_t top : {1, 32, 300, 512}) {
      ExpectSame(fmt::format("heads {} t {} top {}", heads, t, top), [&](Backend& backend) {
        Array<std::int32_t> rows(t * top);
        BeginStep(backend, batch);
        backend.SelectRows(queries.As(t, heads * kPackedIndexBytes), weights.As(t, heads),
                           batch.View(), cache, rows.As(t, top));
        return ReadBytes(backend, rows);
      });
    }
  });
}

// Ranges of any length and beginning, including empty ranges and ranges with fewer rows than are
// chosen; of all rows, and of the rows of one of several ranks.
TEST_P(ConformanceIndex, BestRows) {
  Data data(8);
  ForInputs(data, [&](const Batch& batch, std::int64_t heads, const Array<std::uint8_t>& queries,
                      const Array<Bf16>& weights, CompressorCache cache) {
    const std::int64_t t = batch.n();
    for (const std::int64_t top : {1, 32, 300}) {
      cache.share = top == 32 ? CacheShard{2, 4} : CacheShard{};
      std::vector<RowRange> ranges;
      for (const std::int32_t position : batch.positions) {
        const std::int64_t n_here = cache.share.CountBefore(VisibleRows(position, 4));
        const std::int64_t first = data.Integer(0, n_here);
        ranges.push_back({first, data.Integer(first, n_here)});
      }
      ranges.front().end = ranges.front().first;
      ranges.back().first = 0;
      ExpectSame(fmt::format("heads {} t {} top {}", heads, t, top), [&](Backend& backend) {
        Array<ScoredRow> best(t * top);
        BeginStep(backend, batch);
        backend.BestRows(queries.As(t, heads * kPackedIndexBytes), weights.As(t, heads),
                         batch.View(), cache, ranges, best.As(t, top));
        return ReadBytes(backend, best);
      });
    }
  });
}

// Random cached keys of all sequences.
Array<std::uint8_t> PackedKeys(Data& data, const Blocks& blocks, const KeyLayout& layout,
                               Kind kind) {
  const Array<Bf16> keys = data.Bf16s(blocks.n_rows() * layout.head_dim, kind);
  Array<std::uint8_t> packed(blocks.Bytes(KeyBytes(layout)));
  const BlockRows rows = blocks.Rows(packed.data(), KeyBytes(layout));
  for (std::int64_t i = 0; i < blocks.n_rows(); ++i) {
    const std::int64_t per_sequence = rows.Capacity();
    PackKey(keys.data() + i * layout.head_dim, layout,
            rows.Row(static_cast<std::int32_t>(i / per_sequence), i % per_sequence));
  }
  return packed;
}

// Copies elements to an address that is a multiple of 8 bytes, or to one element after it: kernels
// of GPUs read the former by words.
template <class T>
class Placed {
 public:
  Placed(const Array<T>& from, bool at_words)
      : memory_(static_cast<std::int64_t>(from.all().size_bytes() / sizeof(std::uint64_t)) + 2, 0),
        data_(reinterpret_cast<T*>(memory_.data()) + (at_words ? 0 : 1)) {
    std::ranges::copy(from.all(), data_);
  }
  T* data() { return data_; }
  Matrix<const T> As(std::int64_t rows, std::int64_t cols) const { return {data_, rows, cols}; }

 private:
  Array<std::uint64_t> memory_;
  T* data_;
};

struct AttentionCase {
  int ratio = 0;
  std::int64_t heads = 4;
  std::int64_t head_dim = 128;
  std::int64_t pairs = 32;
  std::int64_t window = 64;
  std::int64_t top = 0;  // 0: all visible rows
  std::int64_t row_of_position_0 = 0;
  bool gathered = false;  // the rows are not in the cache
  bool sees_whole_segment = false;
  bool at_words = false;  // arrays begin at multiples of 8 bytes
  bool few_rows = false;  // Reserve has announced fewer rows than there are
};

class ConformanceAttention : public ConformanceCache {
 protected:
  static constexpr std::int64_t kGathered = 31;  // rows of a block

  void Compare(Data& data, const AttentionCase& c, const Batch& batch, Kind kind) {
    const std::int64_t t = batch.n();
    // Positions to 2,020, with the compressed rows that these positions can have.
    const Blocks window_blocks(data, 2021, 128);
    const Blocks row_blocks(data, 600, c.ratio == 128 ? 1 : 32);
    const Placed q(data.Bf16s(t * c.heads * c.head_dim, kind), c.at_words);
    const Placed keys(data.Bf16s(t * c.head_dim, kind), c.at_words);
    const Array<float> sinks = data.Floats(c.heads);
    const KeyLayout layout = {c.head_dim, 2 * c.pairs};
    Placed window(PackedKeys(data, window_blocks, layout, kind), c.at_words);
    Placed compressed(PackedKeys(data, row_blocks, layout, kind), c.at_words);
    const Angles angles(data, t, c.pairs);
    Array<std::int32_t> selected(t * c.top);
    for (std::int64_t row = 0; row < t && c.top > 0; ++row) {
      const std::int64_t visible =
          VisibleRows(batch.positions[static_cast<std::size_t>(row)], c.ratio);
      for (std::int64_t i = 0; i < c.top; ++i) {
        const std::int64_t n_rows = c.gathered ? kGathered : visible;
        selected.data()[row * c.top + i] =
            static_cast<std::int32_t>(i < visible ? data.Integer(0, n_rows - 1) : -1);
      }
    }
    LayerCache cache;
    cache.ratio = c.ratio;
    cache.window = {.rows = {window_blocks.Rows(window.data(), KeyBytes(layout)), layout},
                    .row_of_position_0 = c.row_of_position_0};
    if (c.ratio != 0) {
      cache.compressor.ratio = c.ratio;
      cache.compressor.rows = {row_blocks.Rows(compressed.data(), KeyBytes(layout)), layout};
    }
    AttentionInput input = {.q = q.As(t, c.heads * c.head_dim),
                            .keys = keys.As(t, c.head_dim),
                            .selected = selected.As(c.top > 0 ? t : 0, c.top),
                            .sinks = sinks.all(),
                            .sliding_window = c.window,
                            .rope = angles.View(),
                            .sees_whole_segment = c.sees_whole_segment};
    if (c.gathered) {  // not the first rows, of which some are looked for
      const std::int64_t row_bytes = KeyBytes(layout);
      input.gathered = {compressed.data() + 5 * row_blocks.Stride(row_bytes), kGathered, row_bytes};
      cache.compressor.share = {1, 2};
    }
    ExpectSame(fmt::format("ratio {} heads {} head_dim {} window {} top {} t {} kind {}", c.ratio,
                           c.heads, c.head_dim, c.window, c.top, t, static_cast<int>(kind)),
               [&](Backend& backend) {
                 Array<Bf16> out(t * c.heads * c.head_dim);
                 if (c.few_rows) {
                   EXPECT_TRUE(backend.Reserve({.max_tokens = t,
                                                .head_dim = c.head_dim,
                                                .sliding_window = c.window,
                                                .attention_heads = 1}));
                 }
                 BeginStep(backend, batch);
                 backend.SparseAttention(input, batch.View(), cache,
                                         out.As(t, c.heads * c.head_dim));
                 return ReadBytes(backend, out);
               });
  }
};

TEST_P(ConformanceAttention, AllLayerKinds) {
  Data data(3);
  bool at_words = false;
  for (const Kind kind : {Kind::kNormal, Kind::kTiny}) {
    for (const Batch& batch :
         {MixedBatch(9, 5, 14, 127), MixedBatch(1, 255, 1, 3), MixedBatch(70, 400, 20, 2000)}) {
      Compare(data, {.ratio = 0, .at_words = at_words}, batch, kind);
      Compare(data, {.ratio = 0, .row_of_position_0 = 1, .at_words = at_words}, batch, kind);
      Compare(data, {.ratio = 4, .top = 32, .at_words = at_words}, batch, kind);
      Compare(data, {.ratio = 4, .top = 32, .gathered = true, .at_words = at_words}, batch, kind);
      Compare(data, {.ratio = 4, .at_words = at_words}, batch, kind);
      Compare(data, {.ratio = 128, .at_words = at_words}, batch, kind);
      at_words = !at_words;
    }
  }
  Compare(data, {}, Batch(), Kind::kNormal);
}

// Blocks of drafts: with no context, a context shorter than the window, and one that fills its
// ring.
TEST_P(ConformanceAttention, BlocksOfDrafts) {
  Data data(6);
  for (const Kind kind : {Kind::kNormal, Kind::kTiny}) {
    for (const Batch& batch :
         {MixedBatch(5, 14, 7, 127), MixedBatch(1, 64, 1, 3), MixedBatch(6, 400, 20, 2000)}) {
      Compare(data, {.sees_whole_segment = true}, batch, kind);
      Compare(data, {.sees_whole_segment = true, .at_words = true}, batch, kind);
      Compare(data,
              {.heads = 3, .head_dim = 96, .pairs = 16, .window = 37, .sees_whole_segment = true},
              batch, kind);
    }
  }
  // Left to the reference:
  Compare(data, {.heads = 2, .head_dim = 36, .pairs = 2, .window = 8, .sees_whole_segment = true},
          MixedBatch(5, 14, 7, 127), Kind::kNormal);
}

TEST_P(ConformanceAttention, OddShapes) {
  Data data(4);
  const Batch batch = MixedBatch(9, 300, 5, 600);
  for (const std::int64_t heads : {1, 2, 3, 5, 11, 20, 37, 67, 130}) {
    Compare(data,
            {.ratio = 4, .heads = heads, .head_dim = 96, .pairs = 16, .window = 37, .top = 29},
            batch, Kind::kNormal);
  }
  Compare(data, {.heads = 2, .head_dim = 512, .pairs = 32, .window = 128}, batch, Kind::kNormal);
  for (const std::int64_t heads : {1, 7, 16, 17, 64}) {
    for (const std::int64_t head_dim : {64, 112, 128, 160, 512, 656}) {
      Compare(data,
              {.ratio = 4,
               .heads = heads,
               .head_dim = head_dim,
               .window = 37,
               .top = 29,
               .at_words = true},
              MixedBatch(2, 300, 5, 600), Kind::kNormal);
    }
  }
  Compare(data, {.heads = 2, .head_dim = 64, .pairs = 0, .window = 1}, batch, Kind::kNormal);
  Compare(data, {.heads = 5, .head_dim = 160, .pairs = 16, .window = 70}, batch, Kind::kNormal);
  Compare(data, {.heads = 3, .head_dim = 64, .pairs = 32, .window = 70}, batch, Kind::kNormal);
  // Left to the reference:
  Compare(data, {.heads = 2, .head_dim = 96, .pairs = 9, .window = 37}, batch, Kind::kNormal);
  Compare(data, {.heads = 2, .head_dim = 36, .pairs = 2, .window = 8}, batch, Kind::kNormal);
}

// Lists that end with a block of 64 slots or beside one, blocks of slots without a key at the end
// and between others, long lists.
TEST_P(ConformanceAttention, ListLengths) {
  Data data(7);
  const Batch batch = MixedBatch(3, 300, 2, 2015);
  for (const std::int64_t top : {1, 26, 27, 28, 91, 603}) {
    for (const bool at_words : {false, true}) {
      Compare(
          data,
          {.ratio = 4, .heads = 3, .head_dim = 64, .window = 37, .top = top, .at_words = at_words},
          batch, Kind::kNormal);
    }
  }
  Compare(data,
          {.ratio = 4, .heads = 3, .head_dim = 64, .window = 200, .top = 40, .at_words = true},
          batch, Kind::kNormal);
  Compare(data, {.heads = 17, .head_dim = 64, .window = 2000, .at_words = true}, batch,
          Kind::kNormal);
}

// More rows than a GPU has memory for at a time.
TEST_P(ConformanceAttention, FewRowsAtATime) {
  if (GetParam().isa) GTEST_SKIP() << "for GPUs";
  Data data(8);
  for (const std::int64_t heads : {3, 20}) {
    Compare(data, {.ratio = 4, .heads = heads, .top = 40, .few_rows = true},
            MixedBatch(40, 9, 20, 9), Kind::kNormal);
  }
}

// Scores far apart: probabilities that vanish, blocks that rescale what came before.
TEST_P(ConformanceAttention, LargeScores) {
  Data data(5);
  for (const Kind kind : {Kind::kLarge, Kind::kMixed}) {
    for (const bool at_words : {false, true}) {
      Compare(data, {.ratio = 4, .head_dim = 64, .pairs = 16, .top = 200, .at_words = at_words},
              MixedBatch(9, 900, 5, 999), kind);
    }
  }
}

// Each rank chooses the rows that one rank with all rows chooses.
TEST_P(ConformanceCache, CopyRows) {
  Data data(10);
  const KeyLayout layout = {128, 64};
  const Blocks blocks(data, 96, 8);
  Array<std::uint8_t> packed = PackedKeys(data, blocks, layout, Kind::kNormal);
  const KeyRows rows = {blocks.Rows(packed.data(), KeyBytes(layout)), layout};
  const CompressorCache cache = {.ratio = 4, .share = {2, 4}, .rows = rows};
  const std::vector<SequenceRow> wanted = {{0, 2}, {2, 6}, {1, 382}, {2, 6}, {0, 34}};
  const std::int64_t n = std::ssize(wanted);
  ExpectSame("five rows, and none", [&](Backend& backend) {
    Array<std::uint8_t> found(n * KeyBytes(layout));
    const Matrix<std::uint8_t> out = found.As(n, KeyBytes(layout));
    backend.CopyRows(wanted, cache, out);
    backend.CopyRows({}, cache, out.Rows(0, 0));
    EXPECT_TRUE(backend.Synchronize());
    for (std::int64_t i = 0; i < n; ++i) {
      const SequenceRow& row = wanted[static_cast<std::size_t>(i)];
      EXPECT_TRUE(
          std::equal(out.Row(i), out.Row(i) + out.cols, rows.Row(row.sequence, row.row / 4)))
          << i;
    }
    return ReadBytes(backend, found);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceCache, ::testing::ValuesIn(Subjects()), SubjectName);
INSTANTIATE_TEST_SUITE_P(Backends, ConformanceIndex, ::testing::ValuesIn(Subjects()), SubjectName);
INSTANTIATE_TEST_SUITE_P(Backends, ConformanceCompress, ::testing::ValuesIn(Subjects()),
                         SubjectName);
INSTANTIATE_TEST_SUITE_P(Backends, ConformanceAttention, ::testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace fathom::kernels::conformance
