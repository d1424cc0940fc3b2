#include "distributed/rank_tensor_parallel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "distributed/rank_exchange.h"
#include "distributed/weight_shard.h"
#include "kernels/staging.h"

namespace fathom::distributed {
namespace {

std::int64_t RowBytes(Matrix<const Bf16> rows) {
  return rows.cols * static_cast<std::int64_t>(sizeof(Bf16));
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
    : TensorParallel(backend, MakeStage(ranks.shard)),
      config_(config),
      ranks_(ranks),
      memory_(std::move(memory)),
      buffers_(memory_.views),
      index_(config, ranks.shard, options.max_batch_tokens),
      rows_(config, ranks.shard, options.max_batch_tokens, options.max_context),
      logit_gather_(ranks_, logits_, buffers_.logit_shards) {
  copies_.reserve(static_cast<std::size_t>(kStreams * options.max_batch_tokens));
}

void RankTensorParallel::ShardWeights(ModelWeights& weights) const {
  distributed::ShardWeights(weights, config_, shard());
}

// Stages have layers of different sizes and hosts have different memory, but blocks have the same
// numbers on all ranks.
Result<CacheShape> RankTensorParallel::ShardCache(CacheShape whole) const {
  CacheShape shape = distributed::ShardCache(std::move(whole), shard());
  const Result<std::int64_t> mine = SequenceCache::SlabsFor(shape);
  if (!mine) return Unexpected(mine.error());
  const Result<std::vector<std::int64_t>> all = ranks_.all->GatherEach(*mine);
  if (!all) return Unexpected(all.error());
  shape.most_slabs = *std::min_element(all->begin(), all->end());
  return shape;
}

// The host reads the rows of the table, because it has the tokens.
Status RankTensorParallel::Embed(const BatchView& batch, Matrix<const Bf16> table,
                                 const Activations& a, Matrix<Bf16> out) {
  if (shard().n_tensor == 1) return TensorParallel::Embed(batch, table, a, out);
  const auto token = [&](std::int64_t row) {
    return static_cast<std::int64_t>(batch.tokens[static_cast<std::size_t>(row)]);
  };
  const auto owner = [&](std::int64_t row) { return static_cast<int>(token(row) / table.rows); };
  const Matrix<Bf16> packed = buffers_.packed_rows;
  const PackedRows places(batch.n_tokens(), ranks_.tensor->size(), owner);
  if (Status done = backend_.Synchronize(); !done) return done;
  for (std::int64_t row = 0; row < batch.n_tokens(); ++row) {
    if (owner(row) == shard().tensor_rank) {
      std::copy_n(table.Row(token(row) % table.rows), table.cols,
                  packed.Row(places.PackedRow(row)));
    }
  }
  if (Status shared = places.Share(*ranks_.tensor, packed); !shared) return shared;
  const std::int64_t n_copies = out.cols / packed.cols;
  copies_.clear();
  for (std::int64_t i = 0; i < out.rows * n_copies; ++i) {
    copies_.push_back(
        {out.data + i * packed.cols, packed.Row(places.PackedRow(i / n_copies)), RowBytes(packed)});
  }
  backend_.CopyPieces(copies_);
  return {};
}

Status RankTensorParallel::BeginStreams(const BatchView& batch, Matrix<const Bf16> table,
                                        const Activations& a) {
  if (!stage_.is_first) {
    const Matrix<Bf16> staged =
        backend_.OnHost() ? a.streams : buffers_.staged_streams.Rows(0, a.streams.rows);
    Status status = backend_.Synchronize();
    if (status) status = ranks_.stages->Receive(shard().stage - 1, AsBytes(staged));
    if (status) UnstageFromHost(backend_, staged, a.streams);
    return status;
  }
  return Embed(batch, table, a, a.streams);
}

Status RankTensorParallel::EndStreams(Matrix<Bf16> streams) {
  if (stage_.is_last) return {};
  const Matrix<Bf16> staged = StageForHost(backend_, streams, buffers_.staged_streams);
  Status status = backend_.Synchronize();
  if (status) status = ranks_.stages->Send(shard().stage + 1, AsBytes(staged));
  return status;
}

Status RankTensorParallel::RowParallelLinear(Matrix<const Bf16> x, const RowParallelWeight& weight,
                                             Matrix<Bf16> out) {
  if (weight.whole.data != nullptr) return TensorParallel::RowParallelLinear(x, weight, out);
  const std::int64_t t = out.rows;
  const std::int64_t n = out.cols;
  // Part after part, [t, n] each.
  const Matrix<float> parts = {buffers_.parts.data, std::ssize(weight.parts), t * n};
  for (std::int64_t p = 0; p < parts.rows; ++p) {
    const Weight& part = weight.parts[static_cast<std::size_t>(p)];
    const Matrix<Bf16> input = {buffers_.part_input.data, t, part.k};
    copies_.clear();
    for (std::int64_t row = 0; row < t; ++row) {
      copies_.push_back({input.Row(row), x.Row(row) + p * part.k, RowBytes(input)});
    }
    backend_.CopyPieces(copies_);
    backend_.Linear(input, part, Matrix<float>{parts.Row(p), t, n});
  }
  if (Status done = backend_.Synchronize(); !done) return done;
  const std::span<float> sum(buffers_.sum.data, static_cast<std::size_t>(t * n));
  if (Status added = ranks_.tensor->AllReduceParts(parts, weight.whole.k_parts, sum); !added) {
    return added;
  }
  const Matrix<Bf16> rounded = backend_.OnHost() ? out : buffers_.staged_rows.Rows(0, t);
  for (std::int64_t i = 0; i < t * n; ++i) {
    rounded.data[i] = ToBf16(sum[static_cast<std::size_t>(i)]);
  }
  UnstageFromHost(backend_, rounded, out);
  return {};
}

// Each rank scores its range of the rows.
Status RankTensorParallel::ChooseCompressedRows(const IndexInput& input) {
  index_.Partition(input.batch.positions);
  if (!index_.is_shared()) return TensorParallel::ChooseCompressedRows(input);
  const Activations& a = input.a;
  const Matrix<ScoredRow> lists = buffers_.index_lists;
  const IndexRange& own = index_.RankRange(shard().tensor_rank);
  input.compute_queries(own.first_token, own.n_tokens);
  backend_.BestRows(a.index_packed.Rows(0, own.n_tokens), a.index_weights.Rows(0, own.n_tokens),
                    input.batch.Rows(own.first_token, own.n_tokens), input.cache, index_.own_rows(),
                    lists.Rows(own.first_list, own.n_tokens));
  Status shared = backend_.Synchronize();
  if (shared) {
    shared = SharePieces(*ranks_.tensor, [&](int rank) {
      const IndexRange& range = index_.RankRange(rank);
      return AsBytes(lists.Rows(range.first_list, range.n_tokens));
    });
  }
  if (shared) {
    const Matrix<std::int32_t> selected =
        backend_.OnHost() ? a.selected : buffers_.staged_selected.Rows(0, a.selected.rows);
    index_.Choose(lists, selected);
    UnstageFromHost(backend_, selected, a.selected);
  }
  return shared;
}

// Gathers the chosen rows first if the tensor ranks divide the rows of the cache.
Status RankTensorParallel::Attend(const AttentionInput& input, const BatchView& batch,
                                  const LayerCache& cache, const Activations& a, Matrix<Bf16> out) {
  if (cache.ratio != 4 || !rows_.is_needed()) {
    return TensorParallel::Attend(input, batch, cache, a, out);
  }
  const Matrix<std::int32_t> selected =
      StageForHost(backend_, a.selected, buffers_.staged_selected);
  std::int64_t n = 0;
  for (std::int64_t first = 0; first < out.rows; first += n) {
    if (Status done = backend_.Synchronize(); !done) return done;
    n = rows_.Gather(batch, selected, first);
    UnstageFromHost(backend_, selected.Rows(first, n), a.selected.Rows(first, n));
    const auto rows_of = [&](int rank) {
      const std::int64_t begin = rows_.FirstRow(rank);
      return buffers_.gathered.Rows(begin, rows_.FirstRow(rank + 1) - begin);
    };
    backend_.CopyRows(rows_.own_rows(), cache.compressor, rows_of(shard().tensor_rank));
    Status shared = backend_.Synchronize();
    if (shared) {
      shared = SharePieces(*ranks_.tensor, [&](int rank) { return AsBytes(rows_of(rank)); });
    }
    if (!shared) return shared;
    AttentionInput some = input;
    some.q = input.q.Rows(first, n);
    some.selected = input.selected.Rows(first, n);
    some.gathered = buffers_.gathered.Rows(0, rows_.n_rows());
    some.rope = {input.rope.cos.Rows(first, n), input.rope.sin.Rows(first, n)};
    Status attended =
        TensorParallel::Attend(some, batch.Rows(first, n), cache, a, out.Rows(first, n));
    if (!attended) return attended;
  }
  return {};
}

Status RankTensorParallel::GatherRows(std::span<const TokenPosition> positions,
                                      std::span<const std::int32_t> rows, Matrix<Bf16> out) {
  if (shard().n_data == 1) return {};
  const auto owner = [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(rows[static_cast<std::size_t>(i)]);
    return shard().data().Owner(positions[row].sequence);
  };
  const Matrix<Bf16> packed = buffers_.packed_rows;
  const PackedRows places(out.rows, ranks_.expert->size(), owner);
  copies_.clear();
  for (std::int64_t i = 0; i < out.rows; ++i) {
    if (owner(i) == shard().data_rank) {
      copies_.push_back(
          {packed.Row(places.PackedRow(i)), out.Row(std::ssize(copies_)), RowBytes(out)});
    }
  }
  backend_.CopyPieces(copies_);
  Status status = backend_.Synchronize();
  if (status) status = places.Share(*ranks_.expert, packed);
  copies_.clear();
  for (std::int64_t i = 0; i < out.rows; ++i) {
    copies_.push_back({out.Row(i), packed.Row(places.PackedRow(i)), RowBytes(out)});
  }
  if (status) backend_.CopyPieces(copies_);
  return status;
}

}  // namespace fathom::distributed
