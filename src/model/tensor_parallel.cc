#include "model/tensor_parallel.h"

#include <algorithm>

namespace fathom::model {

Status TensorParallel::Embed(const BatchView& batch, Matrix<const Bf16> table,
                             const Activations& /*a*/, Matrix<Bf16> out) {
  backend_.Embed(batch, table, out);
  return {};
}

Status TensorParallel::RowParallelLinear(Matrix<const Bf16> x, const RowParallelWeight& weight,
                                         Matrix<Bf16> out) {
  backend_.Linear(x, weight.whole, out);
  return {};
}

Status TensorParallel::ChooseCompressedRows(const IndexInput& input) {
  const Activations& a = input.a;
  const bool all_fit = std::ranges::all_of(input.batch.positions, [&](std::int64_t position) {
    return VisibleRows(position, input.cache.ratio) <= a.selected.cols;
  });
  if (!all_fit) {
    input.compute_queries(0, input.batch.n_tokens());
  }
  backend_.SelectRows(a.index_packed, a.index_weights, input.batch, input.cache, a.selected);
  return {};
}

Status TensorParallel::Attend(const AttentionInput& input, const BatchView& batch,
                              const LayerCache& cache, const Activations& /*a*/, Matrix<Bf16> out) {
  backend_.SparseAttention(input, batch, cache, out);
  return {};
}

}  // namespace fathom::model
