#include "distributed/rank_tensor_parallel.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "distributed/rank_exchange.h"
#include "distributed/weight_shard.h"

namespace fathom {
namespace {

std::size_t RowBytes(Matrix<const Bf16> rows) {
  return static_cast<std::size_t>(rows.cols) * sizeof(Bf16);
}

}  // namespace

Result<std::unique_ptr<TensorParallel>> RankTensorParallel::Create(Backend& backend,
                                                                   const ModelConfig& config,
                                                                   const ModelRanks& ranks,
                                                                   const ModelOptions& options) {
  Result<LaidOutBuffer<RankBuffers>> memory = AllocateRankBuffers(
      backend, config, ranks.shard,
      {.max_tokens = options.max_batch_tokens, .max_logit_rows = options.max_logit_rows});
  if (!memory) {
    return MakeError(memory.error().code, "exchange buffers of {} tokens: {}",
                     options.max_batch_tokens, memory.error().message);
  }
  return std::unique_ptr<TensorParallel>(
      new RankTensorParallel(backend, config, ranks, options, *std::move(memory)));
}

RankTensorParallel::RankTensorParallel(Backend& backend, const ModelConfig& config,
                                       const ModelRanks& ranks, const ModelOptions& options,
                                       LaidOutBuffer<RankBuffers> memory)
    : TensorParallel(backend, StageOf(ranks.shard)),
      config_(config),
      ranks_(ranks),
      memory_(std::move(memory)),
      buffers_(memory_.views),
      index_(config, ranks.shard, options.max_batch_tokens),
      rows_(config, ranks.shard, options.max_batch_tokens, options.max_context),
      batches_{LocalBatch(options.max_batch_tokens, options.max_sequences),
               LocalBatch(options.max_batch_tokens, options.max_sequences)},
      logit_gather_(ranks_, logits_, buffers_.logit_shards) {}

void RankTensorParallel::ShardWeights(ModelWeights& weights) const {
  fathom::ShardWeights(weights, config_, shard());
}

// Stages have layers of different sizes and hosts have different memory, but blocks have the same
// numbers on all ranks.
Result<CacheShape> RankTensorParallel::ShardCache(CacheShape whole) const {
  CacheShape shape = fathom::ShardCache(std::move(whole), shard());
  const Result<std::int64_t> mine = SequenceCache::SlabsFor(shape);
  if (!mine) {
    return Unexpected(mine.error());
  }
  const Result<std::vector<std::int64_t>> all = ranks_.all->GatherEach(*mine);
  if (!all) {
    return Unexpected(all.error());
  }
  shape.most_slabs = *std::min_element(all->begin(), all->end());
  return shape;
}

LocalRows RankTensorParallel::Localize(Pass pass, const BatchView& whole) {
  if (shard().n_data == 1) {
    return {whole, {}};
  }
  LocalBatch& batch = Batch(pass);
  batch.Assign(whole, shard());
  return {batch.View(), batch.local_rows()};
}

Status RankTensorParallel::Embed(const BatchView& batch, Matrix<const Bf16> table,
                                 const Activations& a, Matrix<Bf16> out) {
  if (shard().n_tensor == 1) {
    return TensorParallel::Embed(batch, table, a, out);
  }
  const auto token = [&](std::int64_t row) {
    return static_cast<std::int64_t>(batch.tokens[static_cast<std::size_t>(row)]);
  };
  const auto owner = [&](std::int64_t row) { return static_cast<int>(token(row) / table.rows); };
  const Matrix<Bf16> once = a.u;
  for (std::int64_t row = 0; row < once.rows; ++row) {
    if (owner(row) == shard().tensor_rank) {
      std::memcpy(once.Row(row), table.Row(token(row) % table.rows), RowBytes(once));
    }
  }
  if (Status shared = ShareRows(*ranks_.tensor, once, owner, buffers_.packed_rows);
      !shared || out.data == once.data) {
    return shared;
  }
  const std::int64_t n_copies = out.cols / once.cols;
  for (std::int64_t i = 0; i < out.rows * n_copies; ++i) {
    std::memcpy(out.data + i * once.cols, once.Row(i / n_copies), RowBytes(once));
  }
  return {};
}

Status RankTensorParallel::BeginStreams(const BatchView& batch, Matrix<const Bf16> table,
                                        const Activations& a) {
  if (!stage_.is_first) {
    return ranks_.stages->Receive(shard().stage - 1, BytesOf(a.streams));
  }
  return Embed(batch, table, a, a.streams);
}

Status RankTensorParallel::EndStreams(Matrix<const Bf16> streams) {
  return stage_.is_last ? Status() : ranks_.stages->Send(shard().stage + 1, BytesOf(streams));
}

Status RankTensorParallel::RowParallelLinear(Matrix<const Bf16> x, const RowParallelWeight& weight,
                                             Matrix<Bf16> out) {
  if (weight.whole.data != nullptr) {
    return TensorParallel::RowParallelLinear(x, weight, out);
  }
  const std::int64_t t = out.rows;
  const std::int64_t n = out.cols;
  // Part after part, [t, n] each.
  const Matrix<float> parts = {buffers_.parts.data, std::ssize(weight.parts), t * n};
  backend_.Synchronize();
  for (std::int64_t p = 0; p < parts.rows; ++p) {
    const Weight& part = weight.parts[static_cast<std::size_t>(p)];
    const Matrix<Bf16> input = {buffers_.part_input.data, t, part.k};
    for (std::int64_t row = 0; row < t; ++row) {
      std::memcpy(input.Row(row), x.Row(row) + p * part.k, RowBytes(input));
    }
    backend_.Linear(input, part, Matrix<float>{parts.Row(p), t, n});
    backend_.Synchronize();
  }
  const std::span<float> sum(buffers_.sum.data, static_cast<std::size_t>(t * n));
  if (Status added = ranks_.tensor->AllReduceParts(parts, weight.whole.k_parts, sum); !added) {
    return added;
  }
  for (std::int64_t i = 0; i < t * n; ++i) {
    out.data[i] = ToBf16(sum[static_cast<std::size_t>(i)]);
  }
  return {};
}

// Each rank scores its range of the rows.
Status RankTensorParallel::SelectRows(const IndexInput& input) {
  if (!index_.is_shared()) {
    return TensorParallel::SelectRows(input);
  }
  const Activations& a = input.a;
  const Matrix<ScoredRow> lists = buffers_.index_lists;
  const IndexRange& own = index_.RangeOf(shard().tensor_rank);
  input.compute_queries(own.first_token, own.n_tokens);
  backend_.BestRows(a.index_packed.Rows(0, own.n_tokens), a.index_weights.Rows(0, own.n_tokens),
                    input.batch.Rows(own.first_token, own.n_tokens), input.cache, index_.own_rows(),
                    lists.Rows(own.first_list, own.n_tokens));
  backend_.Synchronize();
  Status shared = SharePieces(*ranks_.tensor, [&](int rank) {
    const IndexRange& range = index_.RangeOf(rank);
    return BytesOf(lists.Rows(range.first_list, range.n_tokens));
  });
  if (shared) index_.Choose(lists, a.selected);
  return shared;
}

// Where the tensor ranks divide the rows of the cache, the chosen rows are gathered first.
Status RankTensorParallel::SparseAttention(const AttentionInput& input, const BatchView& batch,
                                           const LayerCache& cache, const Activations& a,
                                           Matrix<Bf16> out) {
  if (cache.ratio != 4 || !rows_.is_needed()) {
    return TensorParallel::SparseAttention(input, batch, cache, a, out);
  }
  std::int64_t n = 0;
  for (std::int64_t first = 0; first < out.rows; first += n) {
    n = rows_.Gather(batch, a.selected, first);
    const auto rows_of = [&](int rank) {
      const std::int64_t begin = rows_.FirstOf(rank);
      return buffers_.gathered.Rows(begin, rows_.FirstOf(rank + 1) - begin);
    };
    backend_.CopyRows(rows_.own_rows(), cache.compressor, rows_of(shard().tensor_rank));
    backend_.Synchronize();
    if (Status shared =
            SharePieces(*ranks_.tensor, [&](int rank) { return BytesOf(rows_of(rank)); });
        !shared) {
      return shared;
    }
    AttentionInput some = input;
    some.q = input.q.Rows(first, n);
    some.selected = input.selected.Rows(first, n);
    some.gathered = buffers_.gathered.Rows(0, rows_.n_rows());
    some.rope = {input.rope.cos.Rows(first, n), input.rope.sin.Rows(first, n)};
    backend_.SparseAttention(some, batch.Rows(first, n), cache, out.Rows(first, n));
  }
  return {};
}

Status RankTensorParallel::GatherRows(Pass pass, std::span<const std::int32_t> rows,
                                      Matrix<Bf16> out) {
  if (shard().n_data == 1) {
    return {};
  }
  backend_.Synchronize();
  const LocalBatch& batch = Batch(pass);
  const auto owner = [&](std::int64_t i) {
    return batch.OwnerOf(rows[static_cast<std::size_t>(i)]);
  };
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < out.rows; ++i) {
    left += owner(i) == shard().data_rank ? 1 : 0;
  }
  // From the last to the first: no row moves up.
  for (std::int64_t i = out.rows; i-- > 0;) {
    if (owner(i) == shard().data_rank && --left != i) {
      std::memcpy(out.Row(i), out.Row(left), RowBytes(out));
    }
  }
  return ShareRows(*ranks_.expert, out, owner, buffers_.packed_rows);
}

}  // namespace fathom
