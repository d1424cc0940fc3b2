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

namespace fathom::kernels {
namespace {

constexpr std::int64_t kSharedAlignment = 16;
// Rows are scored in multiples of this number: a launch stays the same while a sequence grows by
// 2,048 tokens, so that a driver recognises it.
constexpr std::int64_t kScoredRows = 512;

}  // namespace

struct GpuBackend::AttentionOperations {
  GpuBackend& self;

  void Compute(const QueryHeadsOp& op) {
    self.LaunchOnGroups(GpuKernel::kQueryHeads, op.q.rows * (op.q.cols / op.head_dim),
                        gpu::QueryHeadsArguments{
                            .q = op.q, .head_dim = op.head_dim, .eps = op.eps, .rope = op.rope});
  }

  void Compute(const WindowKeysOp& op) {
    Check(op.kv.cols <= gpu::kMostKeyNumbers, "WindowKeys: wider rows than kMostKeyNumbers");
    self.Launch(GpuKernel::kWindowKeys, op.kv.rows,
                gpu::WindowKeysArguments{
                    .kv = op.kv, .norm = op.norm.data(), .eps = op.eps, .rope = op.rope});
  }

  void Compute(const CompressOp& op) {
    Check(op.cache.Span() <= gpu::kMaxSpan, "Compress: too many tokens for one row");
    for (const Segment& segment : op.batch.segments) {
      Check((segment.first_position + segment.n_tokens) / op.cache.ratio <= op.cache.Capacity(),
            "Compress: more rows than the cache holds");
    }
    const gpu::CompressArguments arguments = {.values = op.input.values,
                                              .scores = op.input.scores,
                                              .ape = op.input.ape,
                                              .norm = op.input.norm.data(),
                                              .width = std::ssize(op.input.norm),
                                              .norm_eps = op.input.norm_eps,
                                              .frequencies = op.input.frequencies.data(),
                                              .pairs = std::ssize(op.input.frequencies),
                                              .batch = self.batch_.View(op.batch),
                                              .cache = op.cache,
                                              .fault = self.fault()};
    const std::int64_t inputs = op.input.scores.rows * op.input.scores.cols;
    self.LaunchOnNumbers(GpuKernel::kAddPositionScores, inputs, arguments);
    self.Launch(GpuKernel::kCompressRows, op.input.scores.rows, arguments,
                arguments.width * static_cast<std::int64_t>(sizeof(Bf16)));
    self.LaunchOnNumbers(GpuKernel::kKeepInputs, inputs, arguments);
  }

  void Compute(const IndexQueriesOp& op) {
    self.Launch(GpuKernel::kIndexQueries, op.q.rows * (op.q.cols / kIndexDim),
                gpu::IndexQueriesArguments{.q = op.q, .rope = op.rope, .out = op.out});
  }

  // Scores and chooses rows for all tokens of `call`, whose token fields are set here. row_counts:
  // the number of rows to score for every token.
  void ChooseRows(gpu::ChooseRowsArguments call, std::span<const std::int64_t> row_counts,
                  std::span<const RowRange> ranges) {
    constexpr std::int64_t kScoreSize = sizeof(std::uint32_t);
    const double heads = static_cast<double>(call.head_weights.cols);
    call.weight_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kIndexDim) * heads));
    const std::int64_t top = ranges.empty() ? call.chosen.cols : call.best.cols;
    call.sorted = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(top, 2))));
    const std::int64_t n = std::ssize(row_counts);
    const std::int64_t room = self.scores_ == nullptr ? 0 : self.scores_->bytes() / kScoreSize;
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
      call.scores = {reinterpret_cast<std::uint32_t*>(self.scores_->address()), count, stride};
      if (!ranges.empty()) {
        call.ranges = self.Stage(ranges.subspan(at, static_cast<std::size_t>(count)));
      }
      constexpr std::int64_t kRowsOfBlock = kMaxBlockThreads / kGroupThreads;
      self.Launch(GpuKernel::kIndexScores, count * DivideUp(call.most_rows, kRowsOfBlock), call);
      self.Launch(GpuKernel::kChooseRows, count, call,
                  call.sorted * static_cast<std::int64_t>(sizeof(ScoredRow)));
    }
  }

  template <class Op>
  gpu::ChooseRowsArguments MakeCall(const Op& op) {
    return {.queries = op.queries,
            .head_weights = op.head_weights,
            .batch = self.batch_.View(op.batch),
            .rows = op.cache.packed_rows,
            .share = op.cache.share,
            .ratio = op.cache.ratio};
  }

  void Compute(const SelectRowsOp& op) {
    self.row_counts_.clear();
    for (const std::int32_t position : op.batch.positions) {
      const std::int64_t visible = VisibleRows(position, op.cache.ratio);
      Check(visible <= op.cache.Capacity(), "SelectRows: more rows than the cache holds");
      Check(visible <= op.rows.cols || op.cache.share.n == 1,
            "SelectRows: rows that other ranks have");
      self.row_counts_.push_back(visible <= op.rows.cols ? 0 : visible);
    }
    gpu::ChooseRowsArguments call = MakeCall(op);
    call.chosen = op.rows;
    ChooseRows(call, self.row_counts_, {});
  }

  void Compute(const BestRowsOp& op) {
    self.row_counts_.clear();
    for (const RowRange& range : op.ranges) {
      self.row_counts_.push_back(range.n_rows());
    }
    gpu::ChooseRowsArguments call = MakeCall(op);
    call.best = op.best;
    ChooseRows(call, self.row_counts_, op.ranges);
  }

  void Compute(const CopyRowsOp& op) {
    std::int64_t first = 0;
    self.ForStageable(op.rows, [&](std::span<const SequenceRow> some) {
      const std::int64_t n = std::ssize(some);
      self.Launch(GpuKernel::kCopyRows, n,
                  gpu::CopyRowsArguments{.rows = self.Stage(some),
                                         .cached = op.cache.rows,
                                         .share = op.cache.share,
                                         .out = op.out.Rows(first, n)});
      first += n;
    });
  }

  void Compute(const SparseAttentionOp& op) {
    for (const std::int32_t position : op.batch.positions) {
      Check(VisibleRows(position, op.cache.ratio) <= op.cache.compressor.Capacity(),
            "SparseAttention: more rows than the cache holds");
    }
    const std::int64_t head_dim = op.input.keys.cols;
    const std::int64_t heads = std::ssize(op.input.sinks);
    const std::int64_t chains = gpu::kAttentionBlock * DivideUp(head_dim, gpu::kScoreChain) *
                                static_cast<std::int64_t>(sizeof(float));
    self.Launch(
        op.input.sees_whole_segment ? GpuKernel::kBlockAttention : GpuKernel::kSparseAttention,
        op.out.rows * heads,
        gpu::AttentionArguments{
            .q = op.input.q,
            .keys = op.input.keys,
            .selected = op.input.selected,
            .gathered = op.input.gathered,
            .sinks = op.input.sinks.data(),
            .heads = heads,
            .sliding_window = op.input.sliding_window,
            .rope = op.input.rope,
            .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))),
            .batch = self.batch_.View(op.batch),
            .window = op.cache.window,
            .compressed = op.cache.compressor.rows,
            .ratio = op.cache.ratio,
            .out = op.out,
            .fault = self.fault()},
        RoundUp(chains, kSharedAlignment) + head_dim * static_cast<std::int64_t>(sizeof(float)));
  }

  void Compute(const AppendWindowOp& op) {
    self.Launch(GpuKernel::kAppendWindow, op.keys.rows,
                gpu::AppendWindowArguments{
                    .keys = op.keys, .batch = self.batch_.View(op.batch), .cache = op.cache});
  }
};

bool GpuBackend::ComputeAttention(const Operation& operation) {
  return ComputeBy(AttentionOperations{*this}, operation);
}

}  // namespace fathom::kernels
