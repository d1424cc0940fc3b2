// Arguments of the kernels in indexer.cu.
#pragma once

#include <cstdint>

#include "base/float_types.h"
#include "base/tensor.h"
#include "kernels/gpu/device/batch_view.h"
#include "kernels/layer_cache.h"
#include "kernels/row_choice.h"

namespace fathom::kernels::gpu {

// Runs a block of at least 64 threads per head of a row.
struct IndexQueriesArguments {
  Matrix<const Bf16> q;  // [t, heads * 128]
  RopeRows rope;
  Matrix<std::uint8_t> out;  // [t, heads * 68]
};

// The choice of rows for tokens first_token, first_token + 1, ... of the batch. Scores[i] are the
// scores of the i-th of these tokens, as numbers that are smaller for higher scores (ScoredRow's
// upper half).
struct ChooseRowsArguments {
  Matrix<const std::uint8_t> queries;  // [t, heads * 68]
  Matrix<const Bf16> head_weights;     // [t, heads]
  float weight_scale = 0.0f;
  DeviceBatch batch;
  BlockRows rows;
  CacheShard share;
  int ratio = 0;
  const RowRange* ranges = nullptr;  // for these tokens; null: all visible rows, where not all fit
  std::int64_t first_token = 0;
  Matrix<std::uint32_t> scores;
  std::int64_t most_rows = 0;   // the most rows of any of these tokens
  std::int64_t sorted = 0;      // a power of two, at least the number of chosen rows
  Matrix<std::int32_t> chosen;  // SelectRows: [t, top]
  Matrix<ScoredRow> best;       // or BestRows: [t, top]
};

}  // namespace fathom::kernels::gpu
