#include "kernels/operation_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/matrix_bytes.h"

namespace fathom {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));

std::string_view FormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "F32";
    case WeightFormat::kBf16:
      return "BF16";
    case WeightFormat::kFp8:
      return "FP8";
    case WeightFormat::kFp4:
      return "FP4";
  }
  return "";
}

std::string ProductName(std::string_view operation, const Weight& w) {
  return fmt::format("{} {} [{}, {}]", operation, FormatName(w.format), w.n, w.k);
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

OperationWork WorkOf(const FillRopeRowsOp& op) {
  return {"FillRopeRows", Moves(SumOfSizes(op.cos, op.sin))};
}

OperationWork WorkOf(const EmbedOp& op) { return {"Embed", Moves(2 * SizeInBytes(op.out))}; }

OperationWork WorkOf(const RmsNormOp& op) {
  return {"RmsNorm", Moves(SumOfSizes(op.x, op.out) + SizeOfSpan(op.weight))};
}

template <class Out>
OperationWork WorkOf(const LinearOp<Out>& op) {
  return {ProductName("Linear", op.w), CostOfProduct(op.x, op.w, op.out)};
}

OperationWork WorkOf(const GroupedLinearOp& op) {
  return {ProductName("GroupedLinear", op.w), CostOfProduct(op.x, op.w, op.out)};
}

OperationWork WorkOf(const SwiGluOp& op) {
  return {"SwiGlu", Moves(SumOfSizes(op.gate, op.up, op.out))};
}

OperationWork WorkOf(const HcPreOp& op) {
  return {"HcPre", CostOfGates(op.streams, op.out, kHcGates)};
}

OperationWork WorkOf(const HcPostOp& op) {
  return {"HcPost", Moves(SumOfSizes(op.y, op.mix.post, op.mix.comb, op.streams, op.streams))};
}

OperationWork WorkOf(const HcHeadOp& op) {
  return {"HcHead", CostOfGates(op.streams, op.out, kStreams)};
}

OperationWork WorkOf(const AddToStreamsOp& op) {
  return {"AddToStreams", Moves(SumOfSizes(op.x, op.streams, op.streams))};
}

OperationWork WorkOf(const MeanOfStreamsOp& op) {
  return {"MeanOfStreams", Moves(SizeInBytes(op.streams) + SizeInBytes(op.streams) / kStreams)};
}

OperationWork WorkOf(const AddOp& op) { return {"Add", Moves(SumOfSizes(op.x, op.y, op.out))}; }

OperationWork WorkOf(const QueryHeadsOp& op) {
  return {"QueryHeads", Moves(SumOfSizes(op.q, op.q, op.rope))};
}

OperationWork WorkOf(const WindowKeysOp& op) {
  return {"WindowKeys", Moves(SumOfSizes(op.kv, op.kv, op.rope) + SizeOfSpan(op.norm))};
}

// The inputs are stored, too.
OperationWork WorkOf(const CompressOp& op) {
  return {op.cache.IsPacked() ? "Compress (indexer)" : "Compress",
          Moves(2 * SumOfSizes(op.input.values, op.input.scores))};
}

OperationWork WorkOf(const IndexQueriesOp& op) {
  return {"IndexQueries", Moves(SumOfSizes(op.q, op.rope, op.out))};
}

OperationWork WorkOf(const SelectRowsOp& op) {
  std::int64_t scored = 0;
  for (const std::int32_t position : op.batch.positions) {
    const std::int64_t visible = VisibleRows(position, op.cache.ratio);
    scored += visible > op.rows.cols ? visible : 0;
  }
  return {"SelectRows", CostOfScores(op.queries, scored, SizeInBytes(op.rows))};
}

OperationWork WorkOf(const BestRowsOp& op) {
  std::int64_t scored = 0;
  for (const RowRange& range : op.ranges) scored += range.n_rows();
  return {"BestRows", CostOfScores(op.queries, scored, SizeInBytes(op.best))};
}

OperationWork WorkOf(const CopyRowsOp& op) { return {"CopyRows", Moves(2 * SizeInBytes(op.out))}; }

// A score and a sum of values per key and number of every head.
OperationWork WorkOf(const SparseAttentionOp& op) {
  const AttentionInput& input = op.input;
  std::int64_t keys = 0;
  for (const std::int32_t position : op.batch.positions) {
    const std::int64_t visible = VisibleRows(position, op.cache.ratio);
    // In blocks of drafts, the rows of the block itself are few.
    keys += std::min<std::int64_t>(position + 1, input.sliding_window) +
            (input.selected.cols > 0 ? std::min(visible, input.selected.cols) : visible);
  }
  return {"SparseAttention", Computes(keys * KeyBytes(op.cache.window.rows.layout) +
                                          SumOfSizes(input.q, input.rope, input.selected, op.out),
                                      2 * keys * input.q.cols)};
}

OperationWork WorkOf(const AppendWindowOp& op) {
  return {"AppendWindow",
          Moves(SizeInBytes(op.keys) + op.keys.rows * KeyBytes(op.cache.rows.layout))};
}

OperationWork WorkOf(const RouteOp& op) {
  return {"Route", Moves(SumOfSizes(op.logits, op.out.ids, op.out.weights))};
}

OperationWork WorkOf(const RouteByTokenOp& op) {
  return {"RouteByToken", Moves(SumOfSizes(op.logits, op.out.ids, op.out.weights))};
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

OperationWork WorkOf(const CombineExpertsOp& op) {
  return {"CombineExperts", Moves(SumOfSizes(op.rows, op.shared, op.out))};
}

OperationWork WorkOf(const ChooseTokensOp& op) {
  return {"ChooseTokens", Moves(SizeInBytes(op.logits))};
}

}  // namespace

OperationWork Describe(const Operation& operation) {
  return std::visit([](const auto& op) { return WorkOf(op); }, operation);
}

}  // namespace fathom
