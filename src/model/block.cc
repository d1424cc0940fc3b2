#include "model/block.h"

#include "model/expert_guess.h"

namespace fathom::model {
namespace {

// Returns the first cols columns' worth of a scratch matrix, as a matrix of its own.
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
                         .ape = weights.ape.data,
                         .norm = weights.norm,
                         .norm_eps = step.config.rms_norm_eps,
                         .frequencies = step.compress_frequencies},
                        step.batch, cache);
}

// Computes the indexer's queries and weights of some tokens, into the first rows of their matrices.
void QueryIndex(const Step& step, const IndexerWeights& weights, std::int64_t first_token,
                std::int64_t n_tokens) {
  const Activations& a = step.a;
  const RopeRows rope = step.Rope(4);
  const Matrix<Bf16> q = a.index_q.Rows(0, n_tokens);
  step.backend.Linear(a.qr.Rows(first_token, n_tokens), weights.wq_b, q);
  step.backend.IndexQueries(
      q, {rope.cos.Rows(first_token, n_tokens), rope.sin.Rows(first_token, n_tokens)},
      a.index_packed.Rows(0, n_tokens));
  step.backend.Linear(a.u.Rows(first_token, n_tokens), weights.weights_proj,
                      a.index_weights.Rows(0, n_tokens));
}

// Selects the compressed rows for each query in a layer of ratio 4 (docs/spec/model.md 6), into
// a.selected.
Status SelectRows(const Step& step, const IndexerWeights& weights, CompressorCache& cache) {
  Compress(step, weights.compressor, cache);
  return step.tensor.ChooseCompressedRows(
      {.batch = step.batch,
       .cache = cache,
       .a = step.a,
       .compute_queries = [&step, &weights](std::int64_t first, std::int64_t n) {
         QueryIndex(step, weights, first, n);
       }});
}

// a.u -> a.y (docs/spec/model.md 5). The weights may cover only some heads and output groups.
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

  WindowKeys(step, weights, a.u, rope);

  Matrix<const std::int32_t> selected;
  if (cache.ratio != 0) {
    Compress(step, weights.compressor, cache.compressor);
  }
  if (cache.ratio == 4) {
    if (Status chosen = SelectRows(step, weights.indexer, cache.indexer); !chosen) return chosen;
    selected = a.selected;
  }
  const AttentionInput input = {.q = q,
                                .keys = a.kv,
                                .selected = selected,
                                .sinks = weights.attn_sink,
                                .sliding_window = config.sliding_window,
                                .rope = rope,
                                .sees_whole_segment = step.is_draft_block};
  if (Status ran = step.tensor.Attend(input, step.batch, cache, a, heads_out); !ran) {
    return ran;
  }
  if (!step.is_draft_block) {
    backend.AppendWindow(a.kv, step.batch, cache.window);
  }

  backend.GroupedLinear(heads_out, weights.wo_a, weights.wo_a.n / config.o_lora_rank, latent);
  return step.tensor.RowParallelLinear(latent, weights.wo_b, a.y);
}

// streams -> a.u, and the mix of the streams.
void PrepareAttention(const Step& step, const BlockWeights& weights, Matrix<const Bf16> streams) {
  const Activations& a = step.a;
  step.backend.HcPre(streams, weights.hc_attn, step.hc_options(), a.u,
                     {.post = a.hc_post, .comb = a.hc_comb});
  step.backend.RmsNorm(a.u, weights.attn_norm, step.config.rms_norm_eps, a.u);
}

// a.u -> a.y: the expert that every token uses. The weights may cover only some of its columns.
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
  return step.tensor.RowParallelLinear(gate, weights.w2, a.y);
}

// a.u -> a.y (docs/spec/model.md 7). Guesses the experts of `next` (null: no guess) from the
// streams.
Status MixtureOfExperts(const Step& step, const BlockWeights& block, const BlockWeights* next,
                        Matrix<const Bf16> streams) {
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
  if (Status told = ObserveRouting(backend, routing.ids, step.routing_observer); !told) return told;
  if (next != nullptr) GuessExperts(step, *next, streams);
  return step.experts.Run(
      step.pass,
      {.block = block.index,
       .x = a.u,
       .routing = routing,
       .positions = step.batch.positions,
       .shared = [&step, &weights] { return SharedExpert(step, weights.shared_experts); },
       .rows = a.expert_rows,
       .y = a.y});
}

}  // namespace

void WindowKeys(const Step& step, const AttentionWeights& weights, Matrix<const Bf16> x,
                const RopeRows& rope) {
  step.backend.Linear(x, weights.wkv, step.a.kv);
  step.backend.WindowKeys(step.a.kv, weights.kv_norm, step.config.rms_norm_eps, rope);
}

void StoreWindowKeys(const Step& step, const BlockWeights& weights, LayerCache& cache,
                     Matrix<const Bf16> streams) {
  PrepareAttention(step, weights, streams);
  WindowKeys(step, weights.attn, step.a.u, step.Rope(cache.ratio));
  step.backend.AppendWindow(step.a.kv, step.batch, cache.window);
}

Status RunBlock(const Step& step, const BlockWeights& weights, LayerCache& cache,
                Matrix<Bf16> streams, const BlockWeights* next) {
  Backend& backend = step.backend;
  const Activations& a = step.a;
  const HcMix mix = {.post = a.hc_post, .comb = a.hc_comb};
  const float eps = step.config.rms_norm_eps;

  if (Status begun = step.store.BeginBlock(step.pass, weights.index); !begun) return begun;
  PrepareAttention(step, weights, streams);
  if (Status ran = Attention(step, weights.attn, cache); !ran) return ran;
  backend.HcPost(a.y, mix, streams);

  backend.HcPre(streams, weights.hc_ffn, step.hc_options(), a.u, mix);
  backend.RmsNorm(a.u, weights.ffn_norm, eps, a.u);
  if (Status ran = MixtureOfExperts(step, weights, next, streams); !ran) return ran;
  backend.HcPost(a.y, mix, streams);
  return step.store.EndBlock(weights.index);
}

}  // namespace fathom::model
