#include "model/block.h"

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

// a.u -> a.y (spec/model.md 5).
void Attention(const Step& step, const AttentionWeights& weights, LayerCache& cache) {
  Backend& backend = step.backend;
  const ModelConfig& config = step.config;
  const Activations& a = step.a;
  const RopeRows rope = step.Rope(cache.ratio);

  backend.Linear(a.u, weights.wq_a, a.qr);
  backend.RmsNorm(a.qr, weights.q_norm, config.rms_norm_eps, a.qr);
  backend.Linear(a.qr, weights.wq_b, a.q);
  backend.QueryHeads(a.q, config.head_dim, config.rms_norm_eps, rope);

  backend.Linear(a.u, weights.wkv, a.kv);
  backend.WindowKeys(a.kv, weights.kv_norm, config.rms_norm_eps, rope);

  Matrix<const std::int32_t> selected;
  if (cache.ratio != 0) {
    Compress(step, weights.compressor, cache.compressor);
  }
  if (cache.ratio == 4) {
    selected = SelectRows(step, weights.indexer, cache.indexer);
  }
  backend.SparseAttention({.q = a.q,
                           .keys = a.kv,
                           .selected = selected,
                           .sinks = weights.attn_sink,
                           .sliding_window = config.sliding_window,
                           .rope = rope},
                          step.batch, cache, a.heads_out);
  backend.AppendWindow(a.kv, step.batch, cache.window);

  backend.GroupedLinear(a.heads_out, weights.wo_a, config.o_groups, a.latent);
  backend.Linear(a.latent, weights.wo_b, a.y);
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
  if (!step.admission.Complete(block)) {
    backend.Synchronize();
    if (Status admitted = step.admission.Admit(block, weights, routing.ids); !admitted) {
      return admitted;
    }
  }
  if (step.routing_observer) {
    backend.Synchronize();
    step.routing_observer(routing.ids);
  }
  backend.ExpertRows(a.u, routing, weights.experts, config.swiglu_limit, a.expert_rows);

  backend.Linear(a.u, weights.shared_experts.w1, a.gate);
  backend.Linear(a.u, weights.shared_experts.w3, a.up);
  backend.SwiGlu(a.gate, a.up, config.swiglu_limit, a.gate);
  backend.Linear(a.gate, weights.shared_experts.w2, a.y);
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
  Attention(step, weights.attn, cache);
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
