#include "kernels/shape_checks.h"

#include <iterator>

#include "base/check.h"

namespace fathom {
namespace {

bool Holds(const KeyRows& rows, const KeyLayout& layout) {
  return rows.layout == layout && rows.blocks.row_bytes == KeyBytes(layout);
}

}  // namespace

void CheckRope(const RopeRows& rope, std::int64_t rows, std::int64_t head_dim) {
  Check(rope.cos.rows == rows && rope.sin.rows == rows && rope.cos.cols == rope.sin.cols &&
            2 * rope.cos.cols <= head_dim,
        "RoPE rows: shapes");
}

void CheckWeight(const Weight& w) {
  const bool quantised = w.format == WeightFormat::kFp8 || w.format == WeightFormat::kFp4;
  Check(!quantised || w.k % kFp8Block == 0, "k of a quantised weight is not a multiple of 128");
  Check(w.k_parts == 1 || w.k_parts == 2 || w.k_parts == 4 || w.k_parts == 8,
        "k_parts is not 1, 2, 4 or 8");
  Check(w.k_parts == 1 || w.k % (w.k_parts * kFp8Block) == 0,
        "k_parts does not divide k into multiples of 128");
}

void CheckAttention(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                    Matrix<const Bf16> out) {
  const std::int64_t t = batch.n_tokens();
  const std::int64_t heads = std::ssize(input.sinks);
  const std::int64_t head_dim = input.keys.cols;
  Check(input.q.rows == t && input.q.cols == heads * head_dim && out.rows == t &&
            out.cols == input.q.cols,
        "SparseAttention: shapes");
  std::int64_t n_own = 0;  // tokens of the whole batch, of which these may be some
  for (const Segment& segment : batch.segments) {
    n_own += segment.n_tokens;
  }
  Check(input.keys.rows == n_own && t <= n_own, "SparseAttention: the batch's own keys");
  Check(input.rope.cos.rows == t && input.rope.sin.rows == t &&
            input.rope.cos.cols == input.rope.sin.cols && 2 * input.rope.cos.cols <= head_dim,
        "SparseAttention: shapes of the RoPE rows");
  Check(input.selected.cols == 0 || input.selected.rows == t, "SparseAttention: selected rows");
  const KeyLayout layout = {.head_dim = head_dim, .rope_dims = 2 * input.rope.cos.cols};
  Check(input.sliding_window >= 1 && Holds(cache.window.rows, layout),
        "SparseAttention: shapes of the window");
  Check(cache.ratio == 0 || Holds(cache.compressor.rows, layout),
        "SparseAttention: shapes of the compressed rows");
  if (input.gathered.cols > 0) {
    Check(input.selected.cols > 0 && input.gathered.cols == KeyBytes(layout),
          "SparseAttention: shapes of the gathered rows");
  } else {
    Check(cache.compressor.share.n == 1, "SparseAttention: rows that other ranks have");
  }
}

void CheckAppend(Matrix<const Bf16> keys, const BatchView& batch, const WindowCache& cache) {
  Check(keys.rows == batch.n_tokens() && cache.rows.layout.head_dim == keys.cols &&
            Holds(cache.rows, cache.rows.layout),
        "AppendWindow: shapes");
}

void CheckCompress(const CompressorInput& input, const BatchView& batch,
                   const CompressorCache& cache) {
  const std::int64_t width = std::ssize(input.norm);
  const std::int64_t inputs = cache.Overlap() * width;
  Check(cache.ratio == 4 || cache.ratio == 128, "Compress: ratio is neither 4 nor 128");
  Check(input.values.rows == batch.n_tokens() && input.scores.rows == batch.n_tokens() &&
            input.values.cols == inputs && input.scores.cols == inputs,
        "Compress: shapes of the inputs");
  Check(cache.tail_values.cols == inputs && cache.tail_scores.cols == inputs &&
            cache.tail_slots >= cache.Span() - 1,
        "Compress: shapes of the tail");
  const KeyLayout layout = {.head_dim = width, .rope_dims = 2 * std::ssize(input.frequencies)};
  Check(PlainDims(layout) >= 0, "Compress: RoPE dimensions");
  const bool packed = cache.packed_rows.row_bytes == kPackedIndexBytes && width == kIndexDim;
  Check(cache.rows.blocks.row_bytes == 0 ? packed : !cache.IsPacked() && Holds(cache.rows, layout),
        "Compress: shapes of the rows");
}

void CheckIndexQueries(Matrix<const Bf16> q, const RopeRows& rope, Matrix<const std::uint8_t> out) {
  const std::int64_t heads = q.cols / kIndexDim;
  const std::int64_t pairs = rope.cos.cols;
  Check(q.cols == heads * kIndexDim && out.rows == q.rows && out.cols == heads * kPackedIndexBytes,
        "IndexQueries: shapes");
  Check(rope.cos.rows == q.rows && rope.sin.rows == q.rows && rope.sin.cols == pairs &&
            2 * pairs <= kIndexDim,
        "IndexQueries: shapes of the RoPE rows");
}

void CheckIndexInput(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                     const BatchView& batch, const CompressorCache& cache) {
  const std::int64_t t = batch.n_tokens();
  Check(queries.rows == t && head_weights.rows == t &&
            queries.cols == head_weights.cols * kPackedIndexBytes &&
            cache.packed_rows.row_bytes == kPackedIndexBytes,
        "SelectRows: shapes");
}

void CheckRowRanges(std::span<const RowRange> ranges, const BatchView& batch,
                    const CompressorCache& cache, Matrix<const ScoredRow> best) {
  Check(std::ssize(ranges) == batch.n_tokens() && best.rows == batch.n_tokens(),
        "BestRows: shapes");
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t visible = VisibleRows(batch.positions[i], cache.ratio);
    Check(ranges[i].first >= 0 && ranges[i].first <= ranges[i].end &&
              ranges[i].end <= cache.share.CountBefore(visible) && visible <= cache.Capacity(),
          "BestRows: rows that the token does not see");
  }
}

void CheckCopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                   Matrix<const std::uint8_t> out) {
  Check(
      !cache.IsPacked() && std::ssize(rows) == out.rows && out.cols == cache.rows.blocks.row_bytes,
      "CopyRows: shapes");
  for (const SequenceRow& row : rows) {
    Check(row.row >= 0 && row.row < cache.Capacity() && cache.share.Has(row.row),
          "CopyRows: a row that the cache does not have");
  }
}

}  // namespace fathom
