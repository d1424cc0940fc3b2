#include "model/block.h"

#include "model/rank_exchange.h"

namespace fathom {
namespace {

// The first cols columns' worth of a scratch matrix, as a matrix of its own.
template <class T>
Matrix<T> Narrow(Matrix<T> scratch, std::int64_t cols) {
  return {scratch.data, scratch.rows, cols};
}

// Adds the rows that this batch completes to one compressor's cache (spec/model.md 5.7).
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

// The compressed rows each query attends to in a layer of ratio 4 (spec/model.md 6).
Matrix<const std::int32_t> SelectRows(const Step& step, const IndexerWeights& weights,
                                      CompressorCache& cache) {
  const Activations& a = step.a;
  Compress(step, weights.compressor, cache);
  step.backend.Linear(a.qr, weights.wq_b, a.index_q);
  step.backend.IndexQueries(a.index_q, step.Rope(cache.ratio), a.index_packed);
  step.backend.Linear(a.u, weights.weights_proj, a.index_weights);
  step.backend.SelectRows(a.index_packed, a.index_weights, step.batch, cache, a.selected);
  return a.selected;
}

// a.u -> a.y (spec/model.md 5). A tensor rank has some of the heads and of the output groups.
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
    selected = SelectRows(step, weights.indexer, cache.indexer);
  }
  backend.SparseAttention({.q = q,
                           .keys = a.kv,
                           .selected = selected,
                           .sinks = weights.attn_sink,
                           .sliding_window = config.sliding_window,
                           .rope = rope},
                          step.batch, cache, heads_out);
  backend.AppendWindow(a.kv, step.batch, cache.window);

  backend.GroupedLinear(heads_out, weights.wo_a, weights.wo_a.n / config.o_lora_rank, latent);
  return RowParallelLinear(backend, step.ranks.tensor, latent, weights.wo_b, a, a.y);
}

// The experts that the tokens have chosen, where they are this rank's.
Matrix<std::int32_t> IdsHere(const Step& step, std::int64_t block) {
  const Activations& a = step.a;
  if (step.ranks.share.n_expert == 1) {
    return a.ids;
  }
  step.backend.Synchronize();
  step.experts.KeepHere(block, step.batch, a.ids, a.here);
  return a.here;
}

// Gives the outputs of every rank's experts to all (spec/parallel.md 4.1: unfused).
Status ShareExpertRows(const Step& step, std::int64_t block) {
  if (step.ranks.share.n_expert == 1) {
    return {};
  }
  step.backend.Synchronize();
  const Activations& a = step.a;
  const auto owner = [&](std::int64_t row) {
    const std::int32_t position = step.batch.positions[static_cast<std::size_t>(row / a.ids.cols)];
    return step.experts.RankOf(block, position, a.ids.data[row]);
  };
  return ShareRows(*step.ranks.expert, a.expert_rows, owner, a.packed_rows);
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

// a.u -> a.y (spec/model.md 7).
Status MixtureOfExperts(const Step& step, std::int64_t block, const MoeWeights& weights) {
  Backend& backend = step.backend;
  const ModelConfig& config = step.config;
  const Activations& a = step.a;
  const Routing routing = {.ids = a.ids, .weights = a.weights};

  backend.Linear(a.u, weights.gate, a.router_logits);
  if (weights.bias.empty()) {
    backend.RouteByToken(step.batch, a.router_logits, weights.tid2eid, config.routed_scaling_factor,
                         routing);
  } else {
    backend.Route(a.router_logits, weights.bias, config.routed_scaling_factor, routing);
  }
  const Routing here = {.ids = IdsHere(step, block), .weights = a.weights};
  step.experts.Count(block, here.ids);
  if (!step.admission.Complete(block)) {
    backend.Synchronize();
    if (Status admitted = step.admission.Admit(block, weights, here.ids); !admitted) {
      return admitted;
    }
  }
  if (step.routing_observer) {
    backend.Synchronize();
    step.routing_observer(routing.ids);
  }
  backend.ExpertRows(a.u, here, weights.experts, config.swiglu_limit, a.expert_rows);
  if (Status shared = ShareExpertRows(step, block); !shared) {
    return shared;
  }
  if (Status ran = SharedExpert(step, weights.shared_experts); !ran) {
    return ran;
  }
  backend.CombineExperts(a.expert_rows, a.y, a.y);
  return {};
}

}  // namespace

Status RunBlock(const Step& step, const BlockWeights& weights, LayerCache& cache,
                Matrix<Bf16> streams) {
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const HcMix mix = {.post = a.hc_post, .comb = a.hc_comb};
  const float eps = step.config.rms_norm_eps;

  backend.HcPre(streams, weights.hc_attn, step.hc_options(), a.u, mix);
  backend.RmsNorm(a.u, weights.attn_norm, eps, a.u);
  if (Status ran = Attention(step, weights.attn, cache); !ran) {
    return ran;
  }
  backend.HcPost(a.y, mix, streams);

  backend.HcPre(streams, weights.hc_ffn, step.hc_options(), a.u, mix);
  backend.RmsNorm(a.u, weights.ffn_norm, eps, a.u);
  if (Status ran = MixtureOfExperts(step, weights.index, weights.ffn); !ran) {
    return ran;
  }
  backend.HcPost(a.y, mix, streams);
  return {};
}

}  // namespace fathom
