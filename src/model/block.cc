#include "model/block.h"

#include "model/rank_exchange.h"

namespace fathom {
namespace {

// The first cols columns' worth of a scratch matrix, as a matrix of its own.
template <class T>
Matrix<T> Narrow(Matrix<T> scratch, std::int64_t cols) {
  return {scratch.data, scratch.rows, cols};
}

// Adds the rows that this batch completes to one compressor's cache (docs/spec/model.md 5.7).
void Compress(const Step& step, const CompressorWeights& weights, CompressorCache& cache) {
  const Activations& a = step.a;
  const Matrix<float> values = Narrow(a.values, weights.wkv.n);
  const Matrix<float> scores = Narrow(a.scores, weights.wgate.n);
  step.backend.Linear(a.u, weights.wkv, values);
  step.backend.Linear(a.u, weights.wgate, scores);
  step.backend.Compress({.values = values,
                         .scores = scores,
                         .ape = weights.ape,
                         .norm = weights.norm,
                         .norm_eps = step.config.rms_norm_eps,
                         .frequencies = step.compress_frequencies},
                        step.batch, cache);
}

// The indexer's queries and weights of some tokens, into the first rows of their matrices.
void QueryIndex(const Step& step, const IndexerWeights& weights, const RopeRows& rope,
                std::int64_t first_token, std::int64_t n_tokens) {
  const Activations& a = step.a;
  const Matrix<Bf16> q = a.index_q.Rows(0, n_tokens);
  step.backend.Linear(a.qr.Rows(first_token, n_tokens), weights.wq_b, q);
  step.backend.IndexQueries(
      q, {rope.cos.Rows(first_token, n_tokens), rope.sin.Rows(first_token, n_tokens)},
      a.index_packed.Rows(0, n_tokens));
  step.backend.Linear(a.u.Rows(first_token, n_tokens), weights.weights_proj,
                      a.index_weights.Rows(0, n_tokens));
}

// The tensor ranks choose together: each scores its stretch.
Status SelectSharedRows(const Step& step, const IndexerWeights& weights,
                        const CompressorCache& cache) {
  const Activations& a = step.a;
  const IndexPartition& cut = step.index_cut;
  Communicator& ranks = *step.ranks.tensor;
  const IndexRange& own = cut.StretchOf(ranks.rank());
  QueryIndex(step, weights, step.Rope(cache.ratio), own.first_token, own.n_tokens);
  step.backend.BestRows(a.index_packed.Rows(0, own.n_tokens), a.index_weights.Rows(0, own.n_tokens),
                        step.batch.Rows(own.first_token, own.n_tokens), cache, cut.own_ranges(),
                        a.index_lists.Rows(own.first_list, own.n_tokens));
  step.backend.Synchronize();
  Status shared = SharePieces(ranks, [&](int rank) {
    const IndexRange& stretch = cut.StretchOf(rank);
    return BytesOf(a.index_lists.Rows(stretch.first_list, stretch.n_tokens));
  });
  if (shared) cut.Choose(a.index_lists, a.selected);
  return shared;
}

// The compressed rows each query attends to in a layer of ratio 4 (docs/spec/model.md 6), into
// a.selected.
Status SelectRows(const Step& step, const IndexerWeights& weights, CompressorCache& cache) {
  const Activations& a = step.a;
  Compress(step, weights.compressor, cache);
  if (step.index_cut.is_shared()) {
    return SelectSharedRows(step, weights, cache);
  }
  if (step.index_cut.has_rows()) {
    QueryIndex(step, weights, step.Rope(cache.ratio), 0, step.batch.n_tokens());
  }
  step.backend.SelectRows(a.index_packed, a.index_weights, step.batch, cache, a.selected);
  return {};
}

// Attention where each tensor rank has some of the chosen rows; input.selected is a.selected.
Status AttendToGathered(const Step& step, const AttentionInput& input, const LayerCache& cache,
                        Matrix<Bf16> out) {
  const Activations& a = step.a;
  RowGather& gather = step.row_gather;
  Communicator& ranks = *step.ranks.tensor;
  std::int64_t n = 0;
  for (std::int64_t first = 0; first < out.rows; first += n) {
    n = gather.Take(step.batch, a.selected, first);
    const auto rows_of = [&](int rank) {
      const std::int64_t begin = gather.FirstOf(rank);
      return a.gathered.Rows(begin, gather.FirstOf(rank + 1) - begin);
    };
    step.backend.CopyRows(gather.own_rows(), cache.compressor, rows_of(ranks.rank()));
    step.backend.Synchronize();
    if (Status shared = SharePieces(ranks, [&](int rank) { return BytesOf(rows_of(rank)); });
        !shared) {
      return shared;
    }
    AttentionInput some = input;
    some.q = input.q.Rows(first, n);
    some.selected = input.selected.Rows(first, n);
    some.gathered = a.gathered.Rows(0, gather.n_rows());
    some.rope = {input.rope.cos.Rows(first, n), input.rope.sin.Rows(first, n)};
    step.backend.SparseAttention(some, step.batch.Rows(first, n), cache, out.Rows(first, n));
  }
  return {};
}

// a.u -> a.y (docs/spec/model.md 5). A tensor rank has some of the heads and of the output groups.
Status Attention(const Step& step, const AttentionWeights& weights, LayerCache& cache) {
  Backend& backend = step.backend;
  const ModelConfig& config = step.config;
  const Activations& a = step.a;
  const RopeRows rope = step.Rope(cache.ratio);
  const Matrix<Bf16> q = Narrow(a.q, weights.wq_b.n);
  const Matrix<Bf16> heads_out = Narrow(a.heads_out, weights.wq_b.n);
  const Matrix<Bf16> latent = Narrow(a.latent, weights.wo_a.n);

  backend.Linear(a.u, weights.wq_a, a.qr);
  backend.RmsNorm(a.qr, weights.q_norm, config.rms_norm_eps, a.qr);
  backend.Linear(a.qr, weights.wq_b, q);
  backend.QueryHeads(q, config.head_dim, config.rms_norm_eps, rope);

  backend.Linear(a.u, weights.wkv, a.kv);
  backend.WindowKeys(a.kv, weights.kv_norm, config.rms_norm_eps, rope);

  Matrix<const std::int32_t> selected;
  if (cache.ratio != 0) {
    Compress(step, weights.compressor, cache.compressor);
  }
  if (cache.ratio == 4) {
    if (Status chosen = SelectRows(step, weights.indexer, cache.indexer); !chosen) {
      return chosen;
    }
    selected = a.selected;
  }
  const AttentionInput input = {.q = q,
                                .keys = a.kv,
                                .selected = selected,
                                .sinks = weights.attn_sink,
                                .sliding_window = config.sliding_window,
                                .rope = rope};
  if (cache.ratio == 4 && step.row_gather.is_needed()) {
    if (Status ran = AttendToGathered(step, input, cache, heads_out); !ran) {
      return ran;
    }
  } else {
    backend.SparseAttention(input, step.batch, cache, heads_out);
  }
  backend.AppendWindow(a.kv, step.batch, cache.window);

  backend.GroupedLinear(heads_out, weights.wo_a, weights.wo_a.n / config.o_lora_rank, latent);
  return RowParallelLinear(backend, step.ranks.tensor, latent, weights.wo_b, a, a.y);
}

// a.u -> a.y: the expert that every token has. A tensor rank has some of its columns.
Status SharedExpert(const Step& step, const SharedExpertWeights& weights) {
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const Matrix<Bf16> gate = Narrow(a.gate, weights.w1.n);
  const Matrix<Bf16> up = Narrow(a.up, weights.w1.n);
  if (weights.w1.n > 0) {
    backend.Linear(a.u, weights.w1, gate);
    backend.Linear(a.u, weights.w3, up);
    backend.SwiGlu(gate, up, step.config.swiglu_limit, gate);
  }
  return RowParallelLinear(backend, step.ranks.tensor, gate, weights.w2, a, a.y);
}

// Outputs of the experts that ids name, whose weights this rank has (Backend::ExpertRows).
Status LocalExperts(const Step& step, const BlockWeights& block, Matrix<const Bf16> x,
                    const Routing& routing, Matrix<Bf16> rows) {
  Backend& backend = step.backend;
  if (Status polled = step.experts.shipment().Poll(); !polled) {
    return polled;
  }
  step.experts.Count(block.index, routing.ids);
  if (!step.admission.Complete(block.index)) {
    backend.Synchronize();
    if (Status admitted = step.admission.Admit(block.index, block.ffn, routing.ids); !admitted) {
      return admitted;
    }
  }
  backend.ExpertRows(x, routing, block.ffn.experts, step.config.swiglu_limit, rows);
  return {};
}

// a.u -> a.y (docs/spec/model.md 7).
Status MixtureOfExperts(const Step& step, const BlockWeights& block) {
  Backend& backend = step.backend;
  const ModelConfig& config = step.config;
  const Activations& a = step.a;
  const MoeWeights& weights = block.ffn;
  const Routing routing = {.ids = a.ids, .weights = a.weights};

  backend.Linear(a.u, weights.gate, a.router_logits);
  if (weights.bias.empty()) {
    backend.RouteByToken(step.batch, a.router_logits, weights.tid2eid, config.routed_scaling_factor,
                         routing);
  } else {
    backend.Route(a.router_logits, weights.bias, config.routed_scaling_factor, routing);
  }
  if (step.routing_observer) {
    backend.Synchronize();
    step.routing_observer(routing.ids);
  }
  const auto local = [&](Matrix<const Bf16> x, const Routing& chosen, Matrix<Bf16> rows) {
    return LocalExperts(step, block, x, chosen, rows);
  };
  const auto shared = [&] { return SharedExpert(step, weights.shared_experts); };
  if (step.exchange != nullptr) {
    return step.exchange->Run({.x = a.u,
                               .routing = routing,
                               .positions = step.batch.positions,
                               .tokens_of_rank = step.tokens_of_rank,
                               .home =
                                   [&](std::int32_t position, std::int32_t expert) {
                                     return step.experts.RankOf(block.index, position, expert);
                                   },
                               .local = local,
                               .shared = shared,
                               .rows = a.expert_rows,
                               .y = a.y});
  }
  Status status = local(a.u, routing, a.expert_rows);
  if (status) status = shared();
  if (status) backend.CombineExperts(a.expert_rows, a.y, a.y);
  return status;
}

}  // namespace

Status RunBlock(const Step& step, const BlockWeights& weights, LayerCache& cache,
                Matrix<Bf16> streams) {
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const HcMix mix = {.post = a.hc_post, .comb = a.hc_comb};
  const float eps = step.config.rms_norm_eps;
  ExpertShipment& shipment = step.experts.shipment();

  // Until the attention is computed, the links have little else to do.
  if (Status started = shipment.Start(); !started) {
    return started;
  }
  backend.HcPre(streams, weights.hc_attn, step.hc_options(), a.u, mix);
  backend.RmsNorm(a.u, weights.attn_norm, eps, a.u);
  if (Status ran = Attention(step, weights.attn, cache); !ran) {
    return ran;
  }
  backend.HcPost(a.y, mix, streams);
  if (Status polled = shipment.Poll(); !polled) {
    return polled;
  }

  backend.HcPre(streams, weights.hc_ffn, step.hc_options(), a.u, mix);
  backend.RmsNorm(a.u, weights.ffn_norm, eps, a.u);
  if (Status ran = MixtureOfExperts(step, weights); !ran) {
    return ran;
  }
  backend.HcPost(a.y, mix, streams);
  return shipment.Wait();
}

}  // namespace fathom
