// Attention, compressors and the choice of rows.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/compressor.h"
#include "kernels/gpu/device/indexer.h"
#include "kernels/gpu/device/norm.h"
#include "kernels/gpu/gpu_backend.h"
#include "kernels/shape_checks.h"

namespace fathom {
namespace {

constexpr std::int64_t kSharedAlignment = 16;
// Rows are scored in multiples of this number: a launch stays the same while a sequence grows by
// 2,048 tokens, so that a driver recognises it.
constexpr std::int64_t kScoredRows = 512;

}  // namespace

void GpuBackend::QueryHeads(Matrix<Bf16> q, std::int64_t head_dim, float eps,
                            const RopeRows& rope) {
  CheckQueryHeads(q, head_dim, rope);
  LaunchOnGroups(GpuKernel::kQueryHeads, q.rows * (q.cols / head_dim),
                 gpu::QueryHeadsArguments{.q = q, .head_dim = head_dim, .eps = eps, .rope = rope});
}

void GpuBackend::WindowKeys(Matrix<Bf16> kv, std::span<const Bf16> norm, float eps,
                            const RopeRows& rope) {
  CheckWindowKeys(kv, norm, rope);
  LaunchOnGroups(GpuKernel::kWindowKeys, kv.rows,
                 gpu::WindowKeysArguments{.kv = kv, .norm = norm.data(), .eps = eps, .rope = rope});
}

void GpuBackend::Compress(const CompressorInput& input, const BatchView& batch,
                          CompressorCache& cache) {
  CheckCompress(input, batch, cache);
  Check(cache.Span() <= gpu::kMaxSpan, "Compress: too many tokens for one row");
  for (const Segment& segment : batch.segments) {
    Check((segment.first_position + segment.n_tokens) / cache.ratio <= cache.Capacity(),
          "Compress: more rows than the cache holds");
  }
  const gpu::CompressArguments arguments = {.values = input.values,
                                            .scores = input.scores,
                                            .ape = input.ape,
                                            .norm = input.norm.data(),
                                            .width = std::ssize(input.norm),
                                            .norm_eps = input.norm_eps,
                                            .frequencies = input.frequencies.data(),
                                            .pairs = std::ssize(input.frequencies),
                                            .batch = batch_.View(batch),
                                            .cache = cache,
                                            .fault = fault()};
  const std::int64_t inputs = input.scores.rows * input.scores.cols;
  LaunchOnNumbers(GpuKernel::kAddPositionScores, inputs, arguments);
  Launch(GpuKernel::kCompressRows, input.scores.rows, arguments,
         arguments.width * static_cast<std::int64_t>(sizeof(Bf16)));
  LaunchOnNumbers(GpuKernel::kKeepInputs, inputs, arguments);
}

void GpuBackend::IndexQueries(Matrix<const Bf16> q, const RopeRows& rope,
                              Matrix<std::uint8_t> out) {
  CheckIndexQueries(q, rope, out);
  Launch(GpuKernel::kIndexQueries, q.rows * (q.cols / kIndexDim),
         gpu::IndexQueriesArguments{.q = q, .rope = rope, .out = out});
}

void GpuBackend::ChooseRows(gpu::ChooseRowsArguments call, std::span<const std::int64_t> row_counts,
                            std::span<const RowRange> ranges) {
  constexpr std::int64_t kScoreSize = sizeof(std::uint32_t);
  const double heads = static_cast<double>(call.head_weights.cols);
  call.weight_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kIndexDim) * heads));
  const std::int64_t top = ranges.empty() ? call.chosen.cols : call.best.cols;
  call.sorted = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(top, 2))));
  const std::int64_t n = std::ssize(row_counts);
  const std::int64_t room = scores_ == nullptr ? 0 : scores_->bytes() / kScoreSize;
  const auto most_of = [&](std::span<const std::int64_t> counts) {
    const std::int64_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
    return std::max(most, std::min(RoundUp(most, kScoredRows), room));
  };
  const std::int64_t stride = std::max<std::int64_t>(most_of(row_counts), 1);
  Check(stride <= room, "more compressed rows than Reserve announced, or Reserve was not called");
  const std::int64_t staged = kGpuStagedBytes / static_cast<std::int64_t>(sizeof(RowRange));
  const std::int64_t tile = std::min(room / stride, staged);
  for (std::int64_t first = 0; first < n; first += tile) {
    const std::int64_t count = std::min(tile, n - first);
    const auto at = static_cast<std::size_t>(first);
    const auto some = row_counts.subspan(at, static_cast<std::size_t>(count));
    call.first_token = first;
    call.most_rows = most_of(some);
    call.scores = {reinterpret_cast<std::uint32_t*>(scores_->address()), count, stride};
    if (!ranges.empty()) {
      call.ranges = Stage(ranges.subspan(at, static_cast<std::size_t>(count)));
    }
    constexpr std::int64_t kRowsOfBlock = kMaxBlockThreads / kGroupThreads;
    Launch(GpuKernel::kIndexScores, count * DivideUp(call.most_rows, kRowsOfBlock), call);
    Launch(GpuKernel::kChooseRows, count, call,
           call.sorted * static_cast<std::int64_t>(sizeof(ScoredRow)));
  }
}

void GpuBackend::SelectRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                            const BatchView& batch, const CompressorCache& cache,
                            Matrix<std::int32_t> rows) {
  CheckIndexInput(queries, head_weights, batch, cache);
  Check(rows.rows == batch.n_tokens(), "SelectRows: shape of the rows");
  row_counts_.clear();
  for (const std::int32_t position : batch.positions) {
    const std::int64_t visible = VisibleRows(position, cache.ratio);
    Check(visible <= cache.Capacity(), "SelectRows: more rows than the cache holds");
    Check(visible <= rows.cols || cache.share.n == 1, "SelectRows: rows that other ranks have");
    row_counts_.push_back(visible <= rows.cols ? 0 : visible);
  }
  ChooseRows({.queries = queries,
              .head_weights = head_weights,
              .batch = batch_.View(batch),
              .rows = cache.packed_rows,
              .share = cache.share,
              .ratio = cache.ratio,
              .chosen = rows},
             row_counts_, {});
}

void GpuBackend::BestRows(Matrix<const std::uint8_t> queries, Matrix<const Bf16> head_weights,
                          const BatchView& batch, const CompressorCache& cache,
                          std::span<const RowRange> ranges, Matrix<ScoredRow> best) {
  CheckIndexInput(queries, head_weights, batch, cache);
  CheckRowRanges(ranges, batch, cache, best);
  row_counts_.clear();
  for (const RowRange& range : ranges) {
    row_counts_.push_back(range.n_rows());
  }
  ChooseRows({.queries = queries,
              .head_weights = head_weights,
              .batch = batch_.View(batch),
              .rows = cache.packed_rows,
              .share = cache.share,
              .ratio = cache.ratio,
              .best = best},
             row_counts_, ranges);
}

void GpuBackend::CopyRows(std::span<const SequenceRow> rows, const CompressorCache& cache,
                          Matrix<std::uint8_t> out) {
  CheckCopyRows(rows, cache, out);
  std::int64_t first = 0;
  ForStageable(rows, [&](std::span<const SequenceRow> some) {
    const std::int64_t n = std::ssize(some);
    Launch(GpuKernel::kCopyRows, n,
           gpu::CopyRowsArguments{.rows = Stage(some),
                                  .cached = cache.rows,
                                  .share = cache.share,
                                  .out = out.Rows(first, n)});
    first += n;
  });
}

void GpuBackend::SparseAttention(const AttentionInput& input, const BatchView& batch,
                                 const LayerCache& cache, Matrix<Bf16> out) {
  CheckAttention(input, batch, cache, out);
  for (const std::int32_t position : batch.positions) {
    Check(VisibleRows(position, cache.ratio) <= cache.compressor.Capacity(),
          "SparseAttention: more rows than the cache holds");
  }
  const std::int64_t head_dim = input.keys.cols;
  const std::int64_t heads = std::ssize(input.sinks);
  const std::int64_t chains = gpu::kAttentionBlock * DivideUp(head_dim, gpu::kScoreChain) *
                              static_cast<std::int64_t>(sizeof(float));
  Launch(input.sees_whole_segment ? GpuKernel::kBlockAttention : GpuKernel::kSparseAttention,
         out.rows * heads,
         gpu::AttentionArguments{
             .q = input.q,
             .keys = input.keys,
             .selected = input.selected,
             .gathered = input.gathered,
             .sinks = input.sinks.data(),
             .heads = heads,
             .sliding_window = input.sliding_window,
             .rope = input.rope,
             .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))),
             .batch = batch_.View(batch),
             .window = cache.window,
             .compressed = cache.compressor.rows,
             .ratio = cache.ratio,
             .out = out,
             .fault = fault()},
         RoundUp(chains, kSharedAlignment) + head_dim * static_cast<std::int64_t>(sizeof(float)));
}

void GpuBackend::AppendWindow(Matrix<const Bf16> keys, const BatchView& batch, WindowCache& cache) {
  CheckAppend(keys, batch, cache);
  Launch(GpuKernel::kAppendWindow, keys.rows,
         gpu::AppendWindowArguments{.keys = keys, .batch = batch_.View(batch), .cache = cache});
}

}  // namespace fathom
