#include "distributed/weight_shard.h"

#include <algorithm>
#include <cstring>

#include "base/integer_math.h"
#include "base/pages.h"
#include "model/model_tensors.h"

namespace fathom::distributed {
namespace {

// Returns rows of a matrix; with FP8, whole blocks of rows that share a scale.
Weight SliceRows(const Weight& weight, Piece rows) {
  Weight part = weight;
  part.n = rows.count;
  part.data += rows.first * weight.RowBytes();
  if (weight.scales != nullptr) {
    const std::int64_t per_scale = weight.format == WeightFormat::kFp4 ? 1 : kFp8Block;
    part.scales += rows.first / per_scale * weight.ScaleColumns() * weight.ScaleSize();
  }
  return part;
}

template <class T>
Matrix<const T> SliceRows(Matrix<const T> table, Piece rows) {
  return table.Rows(rows.first, rows.count);
}
template <class T>
std::span<const T> SliceRows(std::span<const T> vector, Piece rows) {
  return vector.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
}

// The copies of columns; nullptr: nothing is copied, only the sizes count.
using ColumnCopies = std::vector<std::unique_ptr<std::byte[]>>*;

// Copies columns [first, first + count) of `rows` rows of `row_bytes`, as a matrix of its own.
void CopyColumns(const std::byte* from, std::int64_t rows, std::int64_t row_bytes, Piece bytes,
                 std::byte* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * bytes.count, from + row * row_bytes + bytes.first,
                static_cast<std::size_t>(bytes.count));
  }
}

// Returns columns of a matrix, whole blocks of columns that share a scale.
Weight SliceColumns(const Weight& weight, Piece columns, ColumnCopies copies) {
  Weight part = weight;
  part.k = columns.count;
  part.k_parts = 1;
  if (copies == nullptr) return part;
  const auto bytes_of = [&](std::int64_t k) { return weight.RowBytes() * k / weight.k; };
  const std::int64_t scale_rows = weight.scales == nullptr ? 0 : weight.ScaleRows();
  const std::int64_t scale_size = weight.ScaleSize();
  const std::int64_t per_scale = weight.format == WeightFormat::kFp4 ? kFp4Block : kFp8Block;
  const Piece row = {bytes_of(columns.first), bytes_of(columns.count)};
  const Piece scale_row = {columns.first / per_scale * scale_size,
                           columns.count / per_scale * scale_size};
  // Scales first: they are aligned like the memory, whatever follows.
  const std::int64_t n_scale_bytes = RoundUp(scale_rows * scale_row.count, 64);
  copies->push_back(std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(n_scale_bytes + weight.n * row.count)));
  std::byte* const memory = copies->back().get();
  part.data = memory + n_scale_bytes;
  CopyColumns(weight.data, weight.n, weight.RowBytes(), row, memory + n_scale_bytes);
  if (weight.scales != nullptr) {
    part.scales = memory;
    CopyColumns(weight.scales, scale_rows, weight.ScaleColumns() * scale_size, scale_row, memory);
  }
  return part;
}

// Narrows tensors by their rules: a visitor of model_tensors.h.
class Sharder {
 public:
  Sharder(const ModelShard& shard, ColumnCopies copies) : shard_(shard), copies_(copies) {}

  template <class W>
  void operator()(const ModelTensor& tensor, W& weights) const {
    const Piece rows = RowsOfRank(tensor.shard, tensor.rows);
    if constexpr (requires { weights.parts; }) {
      ShardColumns(weights);
    } else if constexpr (requires { SliceRows(weights, rows); }) {
      weights = SliceRows(weights, rows);
    }
  }

  // Returns the rows that this rank has of a tensor of n rows.
  Piece RowsOfRank(ModelTensor::Shard shard, std::int64_t n) const {
    switch (shard) {
      case ModelTensor::Shard::kRows:
        return DivideEvenly(n, shard_.tensor_rank, shard_.n_tensor);
      case ModelTensor::Shard::kVocabulary:
        return DivideEvenly(n, shard_.stage_rank(), shard_.n_stage_ranks());
      case ModelTensor::Shard::kParts: {
        const int n_parts = RowParallelParts(n);
        const Piece parts = DivideParts(n_parts, shard_.tensor_rank, shard_.n_tensor);
        return {parts.first * (n / n_parts), parts.count * (n / n_parts)};
      }
      default:
        return {0, n};
    }
  }

 private:
  void ShardColumns(RowParallelWeight& weight) const {
    if (shard_.n_tensor == 1) return;
    const Weight whole = weight.whole;
    const Piece mine = DivideParts(whole.k_parts, shard_.tensor_rank, shard_.n_tensor);
    for (std::int64_t part = mine.first; part < mine.first + mine.count; ++part) {
      weight.parts.push_back(SliceColumns(
          whole, DivideEvenly(whole.k, static_cast<int>(part), whole.k_parts), copies_));
    }
    if (copies_ != nullptr) ReleasePages(whole.Bytes());
    weight.whole = WithoutData(whole);
  }

  const ModelShard& shard_;
  ColumnCopies copies_;
};

// Unbinds the weights that only other stages read.
void DropOtherStages(ModelWeights& weights, const ModelShard& shard) {
  for (std::int64_t i = 0; i < std::ssize(weights.layers); ++i) {
    if (i < shard.first_layer || i >= shard.end_layer) {
      weights.layers[static_cast<std::size_t>(i)] = {.index = i};
    }
  }
  if (!shard.is_last_stage()) {
    weights.hc_head = {};
    weights.norm = {};
    weights.head = WithoutData(weights.head);
    if (weights.draft) {
      weights.draft.emplace();
    }
  }
  if (!shard.is_first_stage() && !(shard.is_last_stage() && weights.draft)) {
    weights.embed.data = nullptr;
  }
}

void Narrow(ModelWeights& weights, const ModelConfig& config, const ModelShard& shard,
            ColumnCopies copies) {
  if (shard.is_whole()) return;
  const Sharder sharder(shard, copies);
  // Data ranks keep the whole embedding, since only pages with rows of their own tokens become
  // resident; they shard the head.
  VisitOutside(weights, config, sharder);
  for (std::int64_t i = shard.first_layer; i < shard.end_layer; ++i) {
    VisitBlock(weights.layers[static_cast<std::size_t>(i)], config, sharder);
  }
  if (weights.draft) {
    for (BlockWeights& block : weights.draft->blocks) VisitBlock(block, config, sharder);
    for (const std::size_t i : weights.draft->vocabulary_matrices) {
      Weight& matrix = weights.draft->matrices[i];
      matrix = SliceRows(matrix, sharder.RowsOfRank(ModelTensor::Shard::kVocabulary, matrix.n));
    }
  }
  DropOtherStages(weights, shard);
}

}  // namespace

void ShardWeights(ModelWeights& weights, const ModelConfig& config, const ModelShard& shard) {
  Narrow(weights, config, shard, &weights.column_copies);
}

void ShardSizes(ModelWeights& weights, const ModelConfig& config, const ModelShard& shard) {
  Narrow(weights, config, shard, nullptr);
}

}  // namespace fathom::distributed
