// RankBuffers: memory for the data that ranks exchange within a step, allocated once.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "kernels/laid_out_buffer.h"
#include "kernels/row_choice.h"

namespace fathom::distributed {

// In memory that backend and host share. t: tokens of the largest step; d: hidden size. Matrices
// that a shard does not need have no rows.
struct RankBuffers {
  Matrix<Bf16> part_input;        // [t, columns of a part]
  Matrix<float> parts;            // [t * parts of this rank, d]
  Matrix<float> sum;              // [t, d]
  Matrix<Bf16> packed_rows;       // [max(t, rows of logits), d]
  Matrix<ScoredRow> index_lists;  // [MostIndexLists, index_topk]
  Matrix<std::uint8_t> gathered;  // [GatheredRows, KeyBytes]
  // Logits of the ranks of the last stage, slot after slot, rank after rank:
  // [slots * rows of logits, vocabulary].
  Matrix<float> logit_shards;
  // Activations for the host (kernels/staging.h): no rows where the host can access all memory.
  Matrix<Bf16> staged_streams;           // [t, 4 d]
  Matrix<Bf16> staged_rows;              // [t, d]
  Matrix<std::int32_t> staged_selected;  // [t, index_topk]
};

struct RankWorkspaceShape {
  std::int64_t max_tokens = 0;
  std::int64_t max_logit_rows = 0;
};

Result<LaidOutBuffer<RankBuffers>> AllocateRankBuffers(Backend& backend, const ModelConfig& config,
                                                       const ModelShard& shard,
                                                       const RankWorkspaceShape& shape);

// Returns the bytes that AllocateRankBuffers allocates where the host can access all memory.
std::int64_t RankWorkspaceBytes(const ModelConfig& config, const ModelShard& shard,
                                const RankWorkspaceShape& shape);

}  // namespace fathom::distributed
