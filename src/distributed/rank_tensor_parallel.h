// RankTensorParallel: TensorParallel between the ranks of a model (distributed/model_ranks.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "distributed/index_partition.h"
#include "distributed/logit_gather.h"
#include "distributed/model_ranks.h"
#include "distributed/rank_workspace.h"
#include "distributed/row_gather.h"
#include "kernels/laid_out_buffer.h"
#include "model/model.h"
#include "model/tensor_parallel.h"

namespace fathom::distributed {

// Allocates only at creation.
class RankTensorParallel : public TensorParallel {
 public:
  // The backend, the configuration and the communicators of `ranks` must outlive this object.
  // Error: no memory.
  static Result<std::unique_ptr<TensorParallel>> Create(Backend& backend, const ModelConfig& config,
                                                        const ModelRanks& ranks,
                                                        const ModelOptions& options);

  void ShardWeights(ModelWeights& weights) const override;
  Result<CacheShape> ShardCache(CacheShape whole) const override;
  std::int64_t bytes() const override { return memory_.bytes(); }

  Status Embed(const BatchView& batch, Matrix<const Bf16> table, const Activations& a,
               Matrix<Bf16> out) override;
  Status BeginStreams(const BatchView& batch, Matrix<const Bf16> table,
                      const Activations& a) override;
  Status EndStreams(Matrix<Bf16> streams) override;

  Status RowParallelLinear(Matrix<const Bf16> x, const RowParallelWeight& weight,
                           Matrix<Bf16> out) override;
  Status ChooseCompressedRows(const IndexInput& input) override;
  Status Attend(const AttentionInput& input, const BatchView& batch, const LayerCache& cache,
                const Activations& a, Matrix<Bf16> out) override;

  Status GatherRows(std::span<const TokenPosition> positions, std::span<const std::int32_t> rows,
                    Matrix<Bf16> out) override;
  Matrix<float> LocalLogits(std::int64_t n) const override { return logit_gather_.Shard(n); }
  Status StartLogits(std::int64_t n, int slot) override { return logit_gather_.Start(n, slot); }
  Status PollLogits() override { return logit_gather_.Poll(); }
  Result<Matrix<const float>> FinishLogits(int slot) override { return logit_gather_.Finish(slot); }

 private:
  RankTensorParallel(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                     const ModelOptions& options, LaidOutBuffer<RankBuffers> memory);

  const ModelShard& shard() const { return ranks_.shard; }

  const ModelConfig& config_;
  ModelRanks ranks_;
  LaidOutBuffer<RankBuffers> memory_;
  const RankBuffers& buffers_;
  IndexPartition index_;
  RowGather rows_;
  LogitGather logit_gather_;
  std::vector<PieceCopy> copies_;  // scratch of CopyPieces
};

}  // namespace fathom::distributed
