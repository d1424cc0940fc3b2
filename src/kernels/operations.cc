// The checks of shapes, the names and the costs of all operations.
#include "kernels/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/matrix_bytes.h"

namespace fathom::kernels {
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

void CheckRope(const RopeRows& rope, std::int64_t rows, std::int64_t head_dim) {
  Check(rope.cos.rows == rows && rope.sin.rows == rows && rope.cos.cols == rope.sin.cols &&
            2 * rope.cos.cols <= head_dim,
        "RoPE rows: shapes");
}

void CheckIndexInput(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                     const BatchView& batch, const CompressorCache& cache) {
  const std::int64_t t = batch.n_tokens();
  Check(queries.rows == t && head_weights.rows == t &&
            queries.cols == head_weights.cols * kPackedIndexBytes &&
            cache.packed_rows.row_bytes == kPackedIndexBytes,
        "SelectRows: shapes");
}

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

constexpr std::string_view kFormatNames[] = {"F32", "BF16", "FP8", "FP4"};  // by WeightFormat

std::string ProductName(std::string_view operation, const Weight& w) {
  return fmt::format("{} {} [{}, {}]", operation, kFormatNames[static_cast<int>(w.format)], w.n,
                     w.k);
}

template <class T>
std::int64_t SizeOfSpan(std::span<const T> span) {
  return static_cast<std::int64_t>(span.size_bytes());
}

WorkCost Moves(std::int64_t bytes) { return {.bytes = static_cast<double>(bytes)}; }

WorkCost Computes(std::int64_t bytes, std::int64_t multiply_adds) {
  return {.bytes = static_cast<double>(bytes), .flops = 2.0 * static_cast<double>(multiply_adds)};
}

template <class Out>
WorkCost CostOfProduct(Matrix<const Bf16> x, const Weight& w, Matrix<Out> out) {
  return Computes(SumOfSizes(x, w, out), x.rows * w.n * w.k);
}

WorkCost CostOfGates(Matrix<const Bf16> streams, Matrix<Bf16> out, std::int64_t gates) {
  return Computes(SumOfSizes(streams, out) + gates * streams.cols * kFloatBytes,
                  streams.rows * gates * streams.cols);
}

// `scored`: the rows of all tokens together.
WorkCost CostOfScores(Matrix<const std::uint8_t> queries, std::int64_t scored,
                      std::int64_t out_bytes) {
  const std::int64_t heads = queries.cols / kPackedIndexBytes;
  return Computes(SizeInBytes(queries) + scored * kPackedIndexBytes + out_bytes,
                  scored * heads * kIndexDim);
}

void CheckOperands(const FillRopeRowsOp& op) {
  const std::int64_t n = std::ssize(op.frequencies);
  Check(op.cos.rows == op.batch.n_tokens() && op.sin.rows == op.batch.n_tokens() &&
            op.cos.cols == n && op.sin.cols == n,
        "FillRopeRows: shapes");
}
OperationWork WorkOf(const FillRopeRowsOp& op) {
  return {"FillRopeRows", Moves(SumOfSizes(op.cos, op.sin))};
}

void CheckOperands(const EmbedOp& op) {
  Check(op.out.rows == op.batch.n_tokens() && op.table.cols > 0 && op.out.cols % op.table.cols == 0,
        "Embed: shapes");
}
OperationWork WorkOf(const EmbedOp& op) { return {"Embed", Moves(2 * SizeInBytes(op.out))}; }

void CheckOperands(const RmsNormOp& op) {
  Check(op.out.rows == op.x.rows && op.out.cols == op.x.cols && std::ssize(op.weight) == op.x.cols,
        "RmsNorm: shapes");
}
OperationWork WorkOf(const RmsNormOp& op) {
  return {"RmsNorm", Moves(SumOfSizes(op.x, op.out) + SizeOfSpan(op.weight))};
}

template <class Out>
void CheckOperands(const LinearOp<Out>& op) {
  CheckWeight(op.w);
  Check(op.x.cols == op.w.k && op.out.rows == op.x.rows && op.out.cols == op.w.n, "Linear: shapes");
}
template <class Out>
OperationWork WorkOf(const LinearOp<Out>& op) {
  return {ProductName("Linear", op.w), CostOfProduct(op.x, op.w, op.out)};
}

void CheckOperands(const GroupedLinearOp& op) {
  CheckWeight(op.w);
  Check(op.groups > 0 && op.x.cols == op.groups * op.w.k && op.w.n % op.groups == 0 &&
            op.out.rows == op.x.rows && op.out.cols == op.w.n,
        "GroupedLinear: shapes");
  Check(op.w.format != WeightFormat::kFp4, "FP4 weights need quantised activations");
}
OperationWork WorkOf(const GroupedLinearOp& op) {
  return {ProductName("GroupedLinear", op.w), CostOfProduct(op.x, op.w, op.out)};
}

void CheckOperands(const SwiGluOp& op) {
  Check(op.gate.rows == op.out.rows && op.gate.cols == op.out.cols && op.up.rows == op.out.rows &&
            op.up.cols == op.out.cols,
        "SwiGlu: shapes");
}
OperationWork WorkOf(const SwiGluOp& op) {
  return {"SwiGlu", Moves(SumOfSizes(op.gate, op.up, op.out))};
}

void CheckOperands(const HcPreOp& op) {
  Check(op.streams.cols == kStreams * op.out.cols && op.out.rows == op.streams.rows,
        "HcPre: shapes");
  CheckMix(op.mix, op.out.rows);
  Check(op.options.sinkhorn_iterations >= 1, "HcPre: no Sinkhorn iteration");
}
OperationWork WorkOf(const HcPreOp& op) {
  return {"HcPre", CostOfGates(op.streams, op.out, kHcGates)};
}

void CheckOperands(const HcPostOp& op) {
  Check(op.streams.cols == kStreams * op.y.cols && op.streams.rows == op.y.rows, "HcPost: shapes");
  CheckMix(op.mix, op.y.rows);
}
OperationWork WorkOf(const HcPostOp& op) {
  return {"HcPost", Moves(SumOfSizes(op.y, op.mix.post, op.mix.comb, op.streams, op.streams))};
}

void CheckOperands(const HcHeadOp& op) {
  Check(op.streams.cols == kStreams * op.out.cols && op.out.rows == op.streams.rows,
        "HcHead: shapes");
}
OperationWork WorkOf(const HcHeadOp& op) {
  return {"HcHead", CostOfGates(op.streams, op.out, kStreams)};
}

void CheckOperands(const AddToStreamsOp& op) {
  Check(op.streams.cols == kStreams * op.x.cols && op.streams.rows == op.x.rows,
        "AddToStreams: shapes");
}
OperationWork WorkOf(const AddToStreamsOp& op) {
  return {"AddToStreams", Moves(SumOfSizes(op.x, op.streams, op.streams))};
}

void CheckOperands(const MeanOfStreamsOp& op) {
  Check(op.streams.cols % kStreams == 0 && op.out.rows == op.streams.rows && op.first_column >= 0 &&
            op.first_column + op.streams.cols / kStreams <= op.out.cols,
        "MeanOfStreams: shapes");
}
OperationWork WorkOf(const MeanOfStreamsOp& op) {
  return {"MeanOfStreams", Moves(SizeInBytes(op.streams) + SizeInBytes(op.streams) / kStreams)};
}

void CheckOperands(const AddOp& op) {
  Check(op.x.rows == op.out.rows && op.x.cols == op.out.cols && op.y.rows == op.out.rows &&
            op.y.cols == op.out.cols,
        "Add: shapes");
}
OperationWork WorkOf(const AddOp& op) { return {"Add", Moves(SumOfSizes(op.x, op.y, op.out))}; }

void CheckOperands(const QueryHeadsOp& op) {
  Check(op.head_dim > 0 && op.q.cols % op.head_dim == 0, "QueryHeads: shapes");
  CheckRope(op.rope, op.q.rows, op.head_dim);
}
OperationWork WorkOf(const QueryHeadsOp& op) {
  return {"QueryHeads", Moves(SumOfSizes(op.q, op.q, op.rope))};
}

void CheckOperands(const WindowKeysOp& op) {
  CheckRope(op.rope, op.kv.rows, op.kv.cols);
  const std::int64_t plain = op.kv.cols - 2 * op.rope.cos.cols;
  Check(std::ssize(op.norm) == op.kv.cols && plain % kSimulationGroup == 0, "WindowKeys: shapes");
}
OperationWork WorkOf(const WindowKeysOp& op) {
  return {"WindowKeys", Moves(SumOfSizes(op.kv, op.kv, op.rope) + SizeOfSpan(op.norm))};
}

void CheckOperands(const CompressOp& op) {
  const std::int64_t width = std::ssize(op.input.norm);
  const std::int64_t inputs = op.cache.Overlap() * width;
  Check(op.cache.ratio == 4 || op.cache.ratio == 128, "Compress: ratio is neither 4 nor 128");
  Check(op.input.values.rows == op.batch.n_tokens() &&
            op.input.scores.rows == op.batch.n_tokens() && op.input.values.cols == inputs &&
            op.input.scores.cols == inputs,
        "Compress: shapes of the inputs");
  Check(op.cache.tail_values.cols == inputs && op.cache.tail_scores.cols == inputs &&
            op.cache.tail_slots >= op.cache.Span() - 1,
        "Compress: shapes of the tail");
  const KeyLayout layout = {.head_dim = width, .rope_dims = 2 * std::ssize(op.input.frequencies)};
  Check(PlainDims(layout) >= 0, "Compress: RoPE dimensions");
  const bool packed = op.cache.packed_rows.row_bytes == kPackedIndexBytes && width == kIndexDim;
  Check(op.cache.rows.blocks.row_bytes == 0 ? packed
                                            : !op.cache.IsPacked() && Holds(op.cache.rows, layout),
        "Compress: shapes of the rows");
}
// The inputs are stored, too.
OperationWork WorkOf(const CompressOp& op) {
  return {op.cache.IsPacked() ? "Compress (indexer)" : "Compress",
          Moves(2 * SumOfSizes(op.input.values, op.input.scores))};
}

void CheckOperands(const IndexQueriesOp& op) {
  const std::int64_t heads = op.q.cols / kIndexDim;
  const std::int64_t pairs = op.rope.cos.cols;
  Check(op.q.cols == heads * kIndexDim && op.out.rows == op.q.rows &&
            op.out.cols == heads * kPackedIndexBytes,
        "IndexQueries: shapes");
  Check(op.rope.cos.rows == op.q.rows && op.rope.sin.rows == op.q.rows &&
            op.rope.sin.cols == pairs && 2 * pairs <= kIndexDim,
        "IndexQueries: shapes of the RoPE rows");
}
OperationWork WorkOf(const IndexQueriesOp& op) {
  return {"IndexQueries", Moves(SumOfSizes(op.q, op.rope, op.out))};
}

void CheckOperands(const SelectRowsOp& op) {
  CheckIndexInput(op.queries, op.head_weights, op.batch, op.cache);
  Check(op.rows.rows == op.batch.n_tokens(), "SelectRows: shape of the rows");
}
OperationWork WorkOf(const SelectRowsOp& op) {
  std::int64_t scored = 0;
  for (const std::int32_t position : op.batch.positions) {
    scored += CountReadRows(position, 0, op.cache.ratio, op.rows.cols).scored;
  }
  return {"SelectRows", CostOfScores(op.queries, scored, SizeInBytes(op.rows))};
}

void CheckOperands(const BestRowsOp& op) {
  CheckIndexInput(op.queries, op.head_weights, op.batch, op.cache);
  Check(std::ssize(op.ranges) == op.batch.n_tokens() && op.best.rows == op.batch.n_tokens(),
        "BestRows: shapes");
  for (std::size_t i = 0; i < op.ranges.size(); ++i) {
    const std::int64_t visible = VisibleRows(op.batch.positions[i], op.cache.ratio);
    Check(op.ranges[i].first >= 0 && op.ranges[i].first <= op.ranges[i].end &&
              op.ranges[i].end <= op.cache.share.CountBefore(visible) &&
              visible <= op.cache.Capacity(),
          "BestRows: rows that the token does not see");
  }
}
OperationWork WorkOf(const BestRowsOp& op) {
  std::int64_t scored = 0;
  for (const RowRange& range : op.ranges) scored += range.n_rows();
  return {"BestRows", CostOfScores(op.queries, scored, SizeInBytes(op.best))};
}

void CheckOperands(const CopyRowsOp& op) {
  Check(!op.cache.IsPacked() && std::ssize(op.rows) == op.out.rows &&
            op.out.cols == op.cache.rows.blocks.row_bytes,
        "CopyRows: shapes");
  for (const SequenceRow& row : op.rows) {
    Check(row.row >= 0 && row.row < op.cache.Capacity() && op.cache.share.Has(row.row),
          "CopyRows: a row that the cache does not have");
  }
}
OperationWork WorkOf(const CopyRowsOp& op) { return {"CopyRows", Moves(2 * SizeInBytes(op.out))}; }

void CheckOperands(const SparseAttentionOp& op) {
  const std::int64_t t = op.batch.n_tokens();
  const std::int64_t heads = std::ssize(op.input.sinks);
  const std::int64_t head_dim = op.input.keys.cols;
  Check(op.input.q.rows == t && op.input.q.cols == heads * head_dim && op.out.rows == t &&
            op.out.cols == op.input.q.cols,
        "SparseAttention: shapes");
  std::int64_t n_own = 0;  // tokens of the whole batch, which the rows may be a part of
  for (const Segment& segment : op.batch.segments) {
    n_own += segment.n_tokens;
  }
  Check(op.input.keys.rows == n_own && t <= n_own, "SparseAttention: the batch's own keys");
  Check(op.input.rope.cos.rows == t && op.input.rope.sin.rows == t &&
            op.input.rope.cos.cols == op.input.rope.sin.cols &&
            2 * op.input.rope.cos.cols <= head_dim,
        "SparseAttention: shapes of the RoPE rows");
  Check(op.input.selected.cols == 0 || op.input.selected.rows == t,
        "SparseAttention: selected rows");
  const KeyLayout layout = {.head_dim = head_dim, .rope_dims = 2 * op.input.rope.cos.cols};
  Check(op.input.sliding_window >= 1 && Holds(op.cache.window.rows, layout),
        "SparseAttention: shapes of the window");
  Check(op.cache.ratio == 0 || Holds(op.cache.compressor.rows, layout),
        "SparseAttention: shapes of the compressed rows");
  Check(!op.input.sees_whole_segment || (op.cache.ratio == 0 && op.input.selected.cols == 0),
        "SparseAttention: compressed rows of a block of drafts");
  if (op.input.gathered.cols > 0) {
    Check(op.input.selected.cols > 0 && op.input.gathered.cols == KeyBytes(layout),
          "SparseAttention: shapes of the gathered rows");
  } else {
    Check(op.cache.compressor.share.n == 1, "SparseAttention: rows that other ranks have");
  }
}
// A score and a sum of values per key and number of every head.
OperationWork WorkOf(const SparseAttentionOp& op) {
  const AttentionInput& input = op.input;
  std::int64_t keys = 0;
  for (const std::int32_t position : op.batch.positions) {
    // In blocks of drafts, the rows of the block itself are few.
    const ReadRows read =
        CountReadRows(position, input.sliding_window, op.cache.ratio, input.selected.cols);
    keys += read.window + read.compressed;
  }
  return {"SparseAttention", Computes(keys * KeyBytes(op.cache.window.rows.layout) +
                                          SumOfSizes(input.q, input.rope, input.selected, op.out),
                                      2 * keys * input.q.cols)};
}

void CheckOperands(const AppendWindowOp& op) {
  Check(op.keys.rows == op.batch.n_tokens() && op.cache.rows.layout.head_dim == op.keys.cols &&
            Holds(op.cache.rows, op.cache.rows.layout),
        "AppendWindow: shapes");
}
OperationWork WorkOf(const AppendWindowOp& op) {
  return {"AppendWindow",
          Moves(SizeInBytes(op.keys) + op.keys.rows * KeyBytes(op.cache.rows.layout))};
}

void CheckOperands(const RouteOp& op) {
  CheckRouting(op.logits, op.out);
  Check(std::ssize(op.bias) == op.logits.cols, "Route: shape of the bias");
}
OperationWork WorkOf(const RouteOp& op) {
  return {"Route", Moves(SumOfSizes(op.logits, op.out.ids, op.out.weights))};
}

void CheckOperands(const RouteByTokenOp& op) {
  CheckRouting(op.logits, op.out);
  Check(op.logits.rows == op.batch.n_tokens() && op.table.cols == op.out.ids.cols,
        "RouteByToken: shapes");
}
OperationWork WorkOf(const RouteByTokenOp& op) {
  return {"RouteByToken", Moves(SumOfSizes(op.logits, op.out.ids, op.out.weights))};
}

void CheckOperands(const ExpertRowsOp& op) {
  const std::int64_t k = op.routing.ids.cols;
  Check(op.routing.ids.rows == op.x.rows && op.routing.weights.rows == op.x.rows &&
            op.routing.weights.cols == k && op.rows.rows == op.x.rows * k &&
            op.rows.cols == op.x.cols,
        "ExpertRows: shapes");
}
// The experts that rows choose, each once.
OperationWork WorkOf(const ExpertRowsOp& op) {
  const std::span<const ExpertWeights> experts = op.experts.experts;
  std::vector<bool> is_chosen(experts.size());
  std::int64_t bytes = SumOfSizes(op.x, op.rows);
  std::int64_t multiply_adds = 0;
  for (std::int64_t i = 0; i < op.routing.ids.rows * op.routing.ids.cols; ++i) {
    const std::int32_t id = op.routing.ids.data[i];
    if (id < 0 || id >= std::ssize(experts)) continue;
    const ExpertWeights& expert = experts[static_cast<std::size_t>(id)];
    for (const Weight* const w : {&expert.w1, &expert.w2, &expert.w3}) {
      multiply_adds += w->n * w->k;
      if (!is_chosen[static_cast<std::size_t>(id)]) bytes += SizeInBytes(*w);
    }
    is_chosen[static_cast<std::size_t>(id)] = true;
  }
  return {"ExpertRows", Computes(bytes, multiply_adds)};
}

void CheckOperands(const CombineExpertsOp& op) {
  const std::int64_t k = op.out.rows == 0 ? 0 : op.rows.rows / op.out.rows;
  Check(op.rows.rows == k * op.out.rows && op.rows.cols == op.out.cols &&
            op.shared.rows == op.out.rows && op.shared.cols == op.out.cols &&
            (k > 0 || op.out.rows == 0),
        "CombineExperts: shapes");
}
OperationWork WorkOf(const CombineExpertsOp& op) {
  return {"CombineExperts", Moves(SumOfSizes(op.rows, op.shared, op.out))};
}

void CheckOperands(const ChooseTokensOp& op) {
  Check(op.choices.size() == op.rows.size(), "ChooseTokens: a choice for each rule");
}
OperationWork WorkOf(const ChooseTokensOp& op) {
  return {"ChooseTokens", Moves(SizeInBytes(op.logits))};
}

}  // namespace

void CheckWeight(const Weight& w) {
  Check(!w.IsQuantized() || (w.k > 0 && w.k % kFp8Block == 0),
        "k of a quantised weight is not a positive multiple of 128");
  Check(w.k_parts == 1 || w.k_parts == 2 || w.k_parts == 4 || w.k_parts == 8,
        "k_parts is not 1, 2, 4 or 8");
  Check(w.k_parts == 1 || w.k % (w.k_parts * kFp8Block) == 0,
        "k_parts does not divide k into multiples of 128");
}

void CheckShapes(const Operation& operation) {
  std::visit([](const auto& op) { CheckOperands(op); }, operation);
}

OperationWork Describe(const Operation& operation) {
  return std::visit([](const auto& op) { return WorkOf(op); }, operation);
}

}  // namespace fathom::kernels
