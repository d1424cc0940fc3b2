// Attention, compressors and the choice of rows.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/integer_math.h"
#include "kernels/gpu/attention_lists.h"
#include "kernels/gpu/device/attention.h"
#include "kernels/gpu/device/compressor.h"
#include "kernels/gpu/device/indexer.h"
#include "kernels/gpu/device/norm.h"
#include "kernels/gpu/gpu_backend.h"

namespace fathom::kernels {
namespace {

// From so many rows times heads on, attention has more than enough blocks of the wide shapes.
constexpr std::int64_t kWideRowHeads = 512;

// Returns whether kernels can read the rows by words.
template <class T>
bool AreWords(Matrix<const T> rows) {
  constexpr std::uintptr_t kWord = sizeof(std::uint64_t);
  return rows.rows == 0 || (reinterpret_cast<std::uintptr_t>(rows.data) % kWord == 0 &&
                            rows.cols * static_cast<std::int64_t>(sizeof(T)) % kWord == 0);
}
bool AreWords(const BlockRows& rows) {
  return AreWords(Matrix<const std::uint8_t>{rows.data, 1, rows.row_bytes}) &&
         AreWords(Matrix<const std::uint8_t>{rows.data, 1, rows.block_stride});
}

// Returns whether the operation is of a kind that gpu::WordReader reads.
bool AreWords(const SparseAttentionOp& op) {
  const KeyLayout& layout = op.cache.window.rows.layout;
  return layout.head_dim % 16 == 0 && PlainDims(layout) % 8 == 0 && AreWords(op.input.q) &&
         AreWords(op.input.keys) && AreWords(op.input.gathered) &&
         AreWords(op.cache.window.rows.blocks) &&
         (op.cache.ratio == 0 || AreWords(op.cache.compressor.rows.blocks));
}

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
      return std::max(most, std::min(RoundUp(most, kRowStep), room));
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
    Check(head_dim % 2 == 0, "SparseAttention: expected an even number of dimensions");
    gpu::AttentionArguments call = {
        .q = op.input.q,
        .keys = op.input.keys,
        .selected = op.input.selected,
        .gathered = op.input.gathered,
        .sinks = op.input.sinks.data(),
        .heads = std::ssize(op.input.sinks),
        .sliding_window = op.input.sliding_window,
        .rope = op.input.rope,
        .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))),
        .batch = self.batch_.View(op.batch),
        .window = op.cache.window,
        .compressed = op.cache.compressor.rows,
        .ratio = op.cache.ratio,
        .out = op.out,
        .fault = self.fault(),
        .reads_words = AreWords(op)};
    const std::int64_t room = self.attention_ == nullptr ? 0 : self.attention_->bytes();
    gpu::AttentionListShape shape = {.heads = call.heads, .head_dim = head_dim};
    const auto rows_with = [&](std::int64_t step) {
      shape.n_blocks = gpu::AttentionBlocks(MostSlots(op, step));
      return gpu::AttentionRowsIn(room, shape);
    };
    const std::int64_t fitting = std::max(rows_with(kRowStep), std::int64_t{0});
    const std::int64_t tile = fitting > 0 ? fitting : rows_with(1);
    Check(tile > 0, "SparseAttention: more keys than Reserve announced, or Reserve was not called");
    for (call.first_row = 0; call.first_row < op.out.rows; call.first_row += tile) {
      call.n_rows = std::min(tile, op.out.rows - call.first_row);
      call.lists = gpu::LayOutAttentionLists(self.attention_->address(), shape, call.n_rows);
      Attend(call, op.input.sees_whole_segment);
    }
  }

  // Returns the most slots of a row, as if the compressed rows were a multiple of `step`.
  static std::int64_t MostSlots(const SparseAttentionOp& op, std::int64_t step) {
    std::int64_t most = op.input.selected.cols;
    if (op.input.sees_whole_segment) {
      for (const Segment& segment : op.batch.segments) {
        most = std::max<std::int64_t>(most, segment.n_tokens);
      }
    } else if (most == 0) {
      for (const std::int32_t position : op.batch.positions) {
        most = std::max(most, VisibleRows(position, op.cache.ratio));
      }
      most = RoundUp(most, step);
    }
    return op.input.sliding_window + most;
  }

  // Computes the rows of a call. Few rows are spread over many small blocks.
  void Attend(const gpu::AttentionArguments& call, bool of_drafts) {
    const bool is_wide = call.n_rows * call.heads >= kWideRowHeads;
    const gpu::AttentionShape& scores =
        is_wide && !of_drafts ? gpu::kWideScoreShape : gpu::kScoreShape;
    const gpu::AttentionShape& values = is_wide ? gpu::kWideValueShape : gpu::kValueShape;
    self.Launch(of_drafts ? GpuKernel::kBlockAttentionScores
                : is_wide ? GpuKernel::kWideAttentionScores
                          : GpuKernel::kAttentionScores,
                call.n_rows * call.lists.n_blocks * DivideUp(call.heads, scores.heads), call, 0,
                scores.threads);
    self.Launch(GpuKernel::kAttentionWeights, call.n_rows * call.heads, call);
    self.Launch(
        is_wide ? GpuKernel::kWideAttentionValues : GpuKernel::kAttentionValues,
        call.n_rows * DivideUp(call.keys.cols, values.dims) * DivideUp(call.heads, values.heads),
        call, 0, values.threads);
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
