#include "model/workspace.h"

#include <algorithm>
#include <utility>

#include "kernels/key_layout.h"
#include "model/index_cut.h"

namespace fathom {
namespace {

void CarveAttention(Carver& carver, const ModelConfig& config, std::int64_t t, Activations& a) {
  const std::int64_t heads_dim = config.num_attention_heads * config.head_dim;
  a.qr = carver.Take<Bf16>(t, config.q_lora_rank);
  a.q = carver.Take<Bf16>(t, heads_dim);
  a.kv = carver.Take<Bf16>(t, config.head_dim);
  a.heads_out = carver.Take<Bf16>(t, heads_dim);
  a.latent = carver.Take<Bf16>(t, config.o_groups * config.o_lora_rank);
  // The indexer's compressor (width 128) uses them too.
  const std::int64_t inputs = 2 * std::max(config.head_dim, config.index_head_dim);
  a.values = carver.Take<float>(t, inputs);
  a.scores = carver.Take<float>(t, inputs);
  a.index_q = carver.Take<Bf16>(t, config.index_n_heads * config.index_head_dim);
  a.index_packed = carver.Take<std::uint8_t>(t, config.index_n_heads * kPackedIndexBytes);
  a.index_weights = carver.Take<Bf16>(t, config.index_n_heads);
  a.selected = carver.Take<std::int32_t>(t, config.index_topk);
}

void CarveMoe(Carver& carver, const ModelConfig& config, std::int64_t t, Activations& a) {
  a.router_logits = carver.Take<float>(t, config.n_routed_experts);
  a.ids = carver.Take<std::int32_t>(t, config.num_experts_per_tok);
  a.weights = carver.Take<float>(t, config.num_experts_per_tok);
  a.gate = carver.Take<Bf16>(t, config.moe_intermediate_size);
  a.up = carver.Take<Bf16>(t, config.moe_intermediate_size);
  a.expert_rows = carver.Take<Bf16>(t * config.num_experts_per_tok, config.hidden_size);
}

void CarveExchange(Carver& carver, const ModelConfig& config, const WorkspaceShape& shape,
                   Activations& a) {
  const std::int64_t t = shape.n_tensor > 1 ? shape.max_tokens : 0;
  const std::int64_t latent = config.o_groups * config.o_lora_rank;
  const std::int64_t width = config.moe_intermediate_size;
  const int n_parts = std::max(RowParallelParts(latent), RowParallelParts(width));
  a.part_input = carver.Take<Bf16>(
      t, std::max(latent / RowParallelParts(latent), width / RowParallelParts(width)));
  a.parts = carver.Take<float>(t * std::max(n_parts / shape.n_tensor, 1), config.hidden_size);
  a.sum = carver.Take<float>(t, config.hidden_size);
  const bool shares_rows = shape.n_tensor * shape.n_data > 1;
  a.packed_rows = carver.Take<Bf16>(
      shares_rows ? std::max(shape.max_tokens, shape.max_logit_rows) : 0, config.hidden_size);
  a.index_lists = carver.Take<ScoredRow>(
      MostIndexLists(shape.max_tokens, shape.n_tensor, shape.n_gathered_rows > 0),
      config.index_topk);
  a.gathered = carver.Take<std::uint8_t>(shape.n_gathered_rows,
                                         KeyBytes({config.head_dim, config.qk_rope_head_dim}));
}

Activations Carve(Carver& carver, const ModelConfig& config, const WorkspaceShape& shape) {
  const std::int64_t t = shape.max_tokens;
  const std::int64_t d = config.hidden_size;
  const std::int64_t mtp_tokens = shape.with_mtp ? t : 0;
  Activations a;
  a.streams = carver.Take<Bf16>(t, kStreams * d);
  a.mtp_streams = carver.Take<Bf16>(mtp_tokens, kStreams * d);
  a.mtp_normed = carver.Take<Bf16>(mtp_tokens, kStreams * d);
  a.hc_post = carver.Take<float>(t, kStreams);
  a.hc_comb = carver.Take<float>(t, kStreams * kStreams);
  a.u = carver.Take<Bf16>(t, d);
  a.y = carver.Take<Bf16>(t, d);
  for (Matrix<float>* table : {&a.window_cos, &a.window_sin, &a.compress_cos, &a.compress_sin}) {
    *table = carver.Take<float>(t, config.qk_rope_head_dim / 2);
  }
  CarveAttention(carver, config, t, a);
  CarveMoe(carver, config, t, a);
  CarveExchange(carver, config, shape, a);
  a.head_streams = carver.Take<Bf16>(shape.max_logit_rows, kStreams * d);
  a.head_input = carver.Take<Bf16>(shape.max_logit_rows, d);
  a.logits = carver.Take<float>(shape.max_logit_rows, config.vocab_size);
  a.logit_shares = carver.Take<float>(shape.n_tensor * shape.n_data * shape.n_stages > 1
                                          ? shape.n_logit_places * shape.max_logit_rows
                                          : 0,
                                      config.vocab_size);
  return a;
}

// The first n rows of a scratch matrix.
template <class T>
Matrix<T> First(Matrix<T> scratch, std::int64_t n) {
  return scratch.Rows(0, n);
}

}  // namespace

Activations Trim(const Activations& full, std::int64_t n, std::int64_t experts_per_token) {
  Activations a = full;
  a.streams = First(a.streams, n);
  a.mtp_streams = First(a.mtp_streams, std::min(n, a.mtp_streams.rows));
  a.mtp_normed = First(a.mtp_normed, std::min(n, a.mtp_normed.rows));
  for (Matrix<Bf16>* m : {&a.u, &a.y, &a.qr, &a.q, &a.kv, &a.heads_out, &a.latent, &a.index_q,
                          &a.index_weights, &a.gate, &a.up}) {
    *m = First(*m, n);
  }
  for (Matrix<float>* m : {&a.hc_post, &a.hc_comb, &a.window_cos, &a.window_sin, &a.compress_cos,
                           &a.compress_sin, &a.values, &a.scores, &a.router_logits, &a.weights}) {
    *m = First(*m, n);
  }
  a.index_packed = First(a.index_packed, n);
  a.selected = First(a.selected, n);
  a.ids = First(a.ids, n);
  a.expert_rows = First(a.expert_rows, n * experts_per_token);
  return a;
}

std::int64_t WorkspaceBytes(const ModelConfig& config, const WorkspaceShape& shape) {
  return CarvedBytes([&](Carver& carver) { return Carve(carver, config, shape); });
}

Result<Workspace> Workspace::Create(Backend& backend, const ModelConfig& config,
                                    const WorkspaceShape& shape) {
  Result<Carved<Activations>> memory =
      AllocateCarved(backend, [&](Carver& carver) { return Carve(carver, config, shape); });
  if (!memory) {
    return MakeError(memory.error().code, "activations of {} tokens: {}", shape.max_tokens,
                     memory.error().message);
  }
  return Workspace(*std::move(memory));
}

}  // namespace fathom
