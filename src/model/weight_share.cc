#include "model/weight_share.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/integer_math.h"
#include "base/pages.h"

namespace fathom {
namespace {

std::size_t ScaleBytes(const Weight& weight) {
  return weight.scale_format == ScaleFormat::kF32 ? sizeof(float) : 1;
}

// Rows of a matrix: of FP8 a multiple of those that share a scale.
Weight RowsOf(const Weight& weight, Piece rows) {
  Weight share = weight;
  share.n = rows.count;
  share.data += rows.first * weight.RowBytes();
  if (weight.scales != nullptr) {
    const std::int64_t per_scale = weight.format == WeightFormat::kFp4 ? 1 : kFp8Block;
    share.scales += rows.first / per_scale * weight.ScaleColumns() *
                    static_cast<std::int64_t>(ScaleBytes(weight));
  }
  return share;
}

template <class T>
Matrix<const T> RowsOf(Matrix<const T> table, Piece rows) {
  return table.Rows(rows.first, rows.count);
}

// Columns [first, first + count) of `rows` rows of `row_bytes`, as a matrix of its own.
void CopyColumns(const std::byte* from, std::int64_t rows, std::int64_t row_bytes, Piece bytes,
                 std::byte* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * bytes.count, from + row * row_bytes + bytes.first,
                static_cast<std::size_t>(bytes.count));
  }
}

// Columns of a matrix: a multiple of those that share a scale.
Weight ColumnsOf(const Weight& weight, Piece columns,
                 std::vector<std::unique_ptr<std::byte[]>>& copies) {
  const auto bytes_of = [&](std::int64_t k) { return weight.RowBytes() * k / weight.k; };
  const std::int64_t scale_rows = weight.scales == nullptr ? 0
                                  : weight.format == WeightFormat::kFp4
                                      ? weight.n
                                      : DivideUp(weight.n, kFp8Block);
  const auto scale_size = static_cast<std::int64_t>(ScaleBytes(weight));
  const std::int64_t per_scale = weight.format == WeightFormat::kFp4 ? kFp4Block : kFp8Block;
  const Piece row = {bytes_of(columns.first), bytes_of(columns.count)};
  const Piece scale_row = {columns.first / per_scale * scale_size,
                           columns.count / per_scale * scale_size};
  // Scales first: they are aligned like the memory, whatever follows.
  const std::int64_t n_scale_bytes = RoundUp(scale_rows * scale_row.count, 64);
  copies.push_back(std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(n_scale_bytes + weight.n * row.count)));
  std::byte* const memory = copies.back().get();
  Weight share = weight;
  share.k = columns.count;
  share.k_parts = 1;
  share.data = memory + n_scale_bytes;
  CopyColumns(weight.data, weight.n, weight.RowBytes(), row, memory + n_scale_bytes);
  if (weight.scales != nullptr) {
    share.scales = memory;
    CopyColumns(weight.scales, scale_rows, weight.ScaleColumns() * scale_size, scale_row, memory);
  }
  return share;
}

class Taker {
 public:
  Taker(const ModelConfig& config, const ModelShard& share, std::span<const ReplicaMap> experts,
        std::vector<std::unique_ptr<std::byte[]>>& copies)
      : config_(config), share_(share), experts_(experts), copies_(copies) {}

  void Take(BlockWeights& block) const {
    Take(block.attn);
    Take(block.ffn, experts_[static_cast<std::size_t>(block.index)]);
  }

 private:
  Piece TensorPiece(std::int64_t n) const {
    return PieceOf(n, share_.tensor_rank, share_.n_tensor);
  }

  void Take(RowParallelWeight& weight) const {
    const Weight whole = weight.whole;
    const Piece mine = PartsOf(whole.k_parts, share_.tensor_rank, share_.n_tensor);
    for (std::int64_t part = mine.first; part < mine.first + mine.count; ++part) {
      weight.parts.push_back(
          ColumnsOf(whole, PieceOf(whole.k, static_cast<int>(part), whole.k_parts), copies_));
    }
    ReleasePages(whole.Bytes());
    weight.whole = WithoutData(whole);
  }

  void Take(AttentionWeights& attention) const {
    if (share_.n_tensor == 1) {
      return;
    }
    const Piece heads = TensorPiece(config_.num_attention_heads);
    attention.wq_b = RowsOf(attention.wq_b, TensorPiece(attention.wq_b.n));
    attention.wo_a = RowsOf(attention.wo_a, TensorPiece(attention.wo_a.n));
    attention.attn_sink = attention.attn_sink.subspan(static_cast<std::size_t>(heads.first),
                                                      static_cast<std::size_t>(heads.count));
    Take(attention.wo_b);
  }

  void Take(MoeWeights& moe, const ReplicaMap& map) const {
    if (share_.n_tensor > 1) {
      SharedExpertWeights& shared = moe.shared_experts;
      const int n_parts = shared.w2.whole.k_parts;
      const Piece parts = PartsOf(n_parts, share_.tensor_rank, share_.n_tensor);
      const std::int64_t width = shared.w1.n / n_parts;
      const Piece rows = {parts.first * width, parts.count * width};
      shared.w1 = RowsOf(shared.w1, rows);
      shared.w3 = RowsOf(shared.w3, rows);
      Take(shared.w2);
    }
    for (std::int32_t e = 0; e < std::ssize(moe.experts); ++e) {
      if (!map.IsOn(share_.expert_rank, e)) {
        ExpertWeights& expert = moe.experts[static_cast<std::size_t>(e)];
        expert = WithoutData(expert);
      }
    }
  }

  const ModelConfig& config_;
  const ModelShard& share_;
  std::span<const ReplicaMap> experts_;
  std::vector<std::unique_ptr<std::byte[]>>& copies_;
};

// What only other stages read is bound to nothing.
void DropOtherStages(ModelWeights& weights, const ModelShard& share) {
  for (std::int64_t i = 0; i < std::ssize(weights.layers); ++i) {
    if (i < share.first_layer || i >= share.end_layer) {
      weights.layers[static_cast<std::size_t>(i)] = {.index = i};
    }
  }
  if (!share.is_last_stage()) {
    weights.hc_head = {};
    weights.norm = {};
    weights.head = WithoutData(weights.head);
    if (weights.mtp) {
      weights.mtp.emplace();
    }
  }
  if (!share.is_first_stage() && !(share.is_last_stage() && weights.mtp)) {
    weights.embed.data = nullptr;
  }
}

}  // namespace

void TakeShare(ModelWeights& weights, const ModelConfig& config, const ModelShard& share,
               std::span<const ReplicaMap> experts) {
  if (share.is_whole()) {
    return;
  }
  const Taker taker(config, share, experts, weights.aligned_copies);
  // Data ranks look up their own tokens, of whose rows alone pages become resident; the head they
  // share.
  weights.embed =
      RowsOf(weights.embed, PieceOf(config.vocab_size, share.tensor_rank, share.n_tensor));
  weights.head =
      RowsOf(weights.head, PieceOf(config.vocab_size, share.stage_rank(), share.n_stage_ranks()));
  for (std::int64_t i = share.first_layer; i < share.end_layer; ++i) {
    taker.Take(weights.layers[static_cast<std::size_t>(i)]);
  }
  if (share.is_last_stage() && weights.mtp) {
    taker.Take(weights.mtp->block);
  }
  DropOtherStages(weights, share);
}

}  // namespace fathom
