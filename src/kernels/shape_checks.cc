#include "kernels/shape_checks.h"

#include <iterator>

#include "base/check.h"

namespace fathom {
namespace {

bool Holds(const KeyRows& rows, const KeyLayout& layout) {
  return rows.layout == layout && rows.blocks.row_bytes == KeyBytes(layout);
}

void CheckMix(const HcMix& mix, std::int64_t rows) {
  Check(mix.post.rows == rows && mix.post.cols == kStreams && mix.comb.rows == rows &&
            mix.comb.cols == kStreams * kStreams,
        "hyper-connections: shapes of the mix");
}

void CheckRouting(Matrix<const float> logits, const Routing& out) {
  Check(out.ids.rows == logits.rows && out.weights.rows == logits.rows &&
            out.ids.cols == out.weights.cols && out.ids.cols <= logits.cols,
        "Route: shapes");
}

}  // namespace

void CheckFillRopeRows(const BatchView& batch, std::span<const float> frequencies,
                       Matrix<const float> cos, Matrix<const float> sin) {
  const std::int64_t n = std::ssize(frequencies);
  Check(cos.rows == batch.n_tokens() && sin.rows == batch.n_tokens() && cos.cols == n &&
            sin.cols == n,
        "FillRopeRows: shapes");
}

void CheckEmbed(const BatchView& batch, Matrix<const Bf16> table, Matrix<const Bf16> out) {
  Check(out.rows == batch.n_tokens() && table.cols > 0 && out.cols % table.cols == 0,
        "Embed: shapes");
}

void CheckRmsNorm(Matrix<const Bf16> x, std::span<const Bf16> weight, Matrix<const Bf16> out) {
  Check(out.rows == x.rows && out.cols == x.cols && std::ssize(weight) == x.cols,
        "RmsNorm: shapes");
}

void CheckLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t out_rows,
                 std::int64_t out_cols) {
  CheckWeight(w);
  Check(x.cols == w.k && out_rows == x.rows && out_cols == w.n, "Linear: shapes");
}

void CheckGroupedLinear(Matrix<const Bf16> x, const Weight& w, std::int64_t groups,
                        Matrix<const Bf16> out) {
  CheckWeight(w);
  Check(groups > 0 && x.cols == groups * w.k && w.n % groups == 0 && out.rows == x.rows &&
            out.cols == w.n,
        "GroupedLinear: shapes");
  Check(w.format != WeightFormat::kFp4, "FP4 weights need quantised activations");
}

void CheckSwiGlu(Matrix<const Bf16> gate, Matrix<const Bf16> up, Matrix<const Bf16> out) {
  Check(
      gate.rows == out.rows && gate.cols == out.cols && up.rows == out.rows && up.cols == out.cols,
      "SwiGlu: shapes");
}

void CheckHcPre(Matrix<const Bf16> streams, const HcOptions& options, Matrix<const Bf16> out,
                const HcMix& mix) {
  Check(streams.cols == kStreams * out.cols && out.rows == streams.rows, "HcPre: shapes");
  CheckMix(mix, out.rows);
  Check(options.sinkhorn_iterations >= 1, "HcPre: no Sinkhorn iteration");
}

void CheckHcPost(Matrix<const Bf16> y, const HcMix& mix, Matrix<const Bf16> streams) {
  Check(streams.cols == kStreams * y.cols && streams.rows == y.rows, "HcPost: shapes");
  CheckMix(mix, y.rows);
}

void CheckHcHead(Matrix<const Bf16> streams, Matrix<const Bf16> out) {
  Check(streams.cols == kStreams * out.cols && out.rows == streams.rows, "HcHead: shapes");
}

void CheckAddToStreams(Matrix<const Bf16> x, Matrix<const Bf16> streams) {
  Check(streams.cols == kStreams * x.cols && streams.rows == x.rows, "AddToStreams: shapes");
}

void CheckMeanOfStreams(Matrix<const Bf16> streams, std::int64_t first_column,
                        Matrix<const Bf16> out) {
  Check(streams.cols % kStreams == 0 && out.rows == streams.rows && first_column >= 0 &&
            first_column + streams.cols / kStreams <= out.cols,
        "MeanOfStreams: shapes");
}

void CheckAdd(Matrix<const float> x, Matrix<const float> y, Matrix<const float> out) {
  Check(x.rows == out.rows && x.cols == out.cols && y.rows == out.rows && y.cols == out.cols,
        "Add: shapes");
}

void CheckQueryHeads(Matrix<const Bf16> q, std::int64_t head_dim, const RopeRows& rope) {
  Check(head_dim > 0 && q.cols % head_dim == 0, "QueryHeads: shapes");
  CheckRope(rope, q.rows, head_dim);
}

void CheckWindowKeys(Matrix<const Bf16> kv, std::span<const Bf16> norm, const RopeRows& rope) {
  CheckRope(rope, kv.rows, kv.cols);
  const std::int64_t plain = kv.cols - 2 * rope.cos.cols;
  Check(std::ssize(norm) == kv.cols && plain % kSimulationGroup == 0, "WindowKeys: shapes");
}

void CheckRoute(Matrix<const float> logits, std::span<const float> bias, const Routing& out) {
  CheckRouting(logits, out);
  Check(std::ssize(bias) == logits.cols, "Route: shape of the bias");
}

void CheckRouteByToken(const BatchView& batch, Matrix<const float> logits,
                       Matrix<const std::int64_t> table, const Routing& out) {
  CheckRouting(logits, out);
  Check(logits.rows == batch.n_tokens() && table.cols == out.ids.cols, "RouteByToken: shapes");
}

void CheckExpertRows(Matrix<const Bf16> x, const Routing& routing, Matrix<const Bf16> rows) {
  const std::int64_t k = routing.ids.cols;
  Check(routing.ids.rows == x.rows && routing.weights.rows == x.rows && routing.weights.cols == k &&
            rows.rows == x.rows * k && rows.cols == x.cols,
        "ExpertRows: shapes");
}

void CheckCombineExperts(Matrix<const Bf16> rows, Matrix<const Bf16> shared,
                         Matrix<const Bf16> out) {
  const std::int64_t k = out.rows == 0 ? 0 : rows.rows / out.rows;
  Check(rows.rows == k * out.rows && rows.cols == out.cols && shared.rows == out.rows &&
            shared.cols == out.cols && (k > 0 || out.rows == 0),
        "CombineExperts: shapes");
}

void CheckRope(const RopeRows& rope, std::int64_t rows, std::int64_t head_dim) {
  Check(rope.cos.rows == rows && rope.sin.rows == rows && rope.cos.cols == rope.sin.cols &&
            2 * rope.cos.cols <= head_dim,
        "RoPE rows: shapes");
}

void CheckWeight(const Weight& w) {
  Check(!w.IsQuantized() || (w.k > 0 && w.k % kFp8Block == 0),
        "k of a quantised weight is not a positive multiple of 128");
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
  std::int64_t n_own = 0;  // tokens of the whole batch, which the rows may be a part of
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
  Check(!input.sees_whole_segment || (cache.ratio == 0 && input.selected.cols == 0),
        "SparseAttention: compressed rows of a block of drafts");
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
