#include "model/workspace.h"

#include <algorithm>
#include <utility>

#include "model/draft/drafters.h"

namespace fathom::model {
namespace {

void LayOutAttention(BufferLayout& memory, const ModelConfig& config, std::int64_t t,
                     Activations& a) {
  const std::int64_t heads_dim = config.num_attention_heads * config.head_dim;
  a.qr = memory.Add<Bf16>(t, config.q_lora_rank);
  a.q = memory.Add<Bf16>(t, heads_dim);
  a.kv = memory.Add<Bf16>(t, config.head_dim);
  a.heads_out = memory.Add<Bf16>(t, heads_dim);
  a.latent = memory.Add<Bf16>(t, config.o_groups * config.o_lora_rank);
  // The indexer's compressor (width 128) uses them too.
  const std::int64_t inputs = 2 * std::max(config.head_dim, config.index_head_dim);
  a.values = memory.Add<float>(t, inputs);
  a.scores = memory.Add<float>(t, inputs);
  a.index_q = memory.Add<Bf16>(t, config.index_n_heads * config.index_head_dim);
  a.index_packed = memory.Add<std::uint8_t>(t, config.index_n_heads * kPackedIndexBytes);
  a.index_weights = memory.Add<Bf16>(t, config.index_n_heads);
  a.selected = memory.Add<std::int32_t>(t, config.index_topk);
}

void LayOutMoe(BufferLayout& memory, const ModelConfig& config, std::int64_t t,
               std::int64_t noted_layers, Activations& a) {
  a.router_logits = memory.Add<float>(t, config.n_routed_experts);
  a.ids = memory.Add<std::int32_t>(t, config.num_experts_per_tok);
  a.weights = memory.Add<float>(t, config.num_experts_per_tok);
  a.gate = memory.Add<Bf16>(t, config.moe_intermediate_size);
  a.up = memory.Add<Bf16>(t, config.moe_intermediate_size);
  a.expert_rows = memory.Add<Bf16>(t * config.num_experts_per_tok, config.hidden_size);
  a.noted_ids = memory.Add<std::int32_t>(noted_layers * t, config.num_experts_per_tok);
}

Activations LayOut(BufferLayout& memory, const ModelConfig& config, const WorkspaceShape& shape) {
  const std::int64_t d = config.hidden_size;
  const DraftSizes draft = shape.drafter == nullptr ? DraftSizes() : shape.drafter->sizes(config);
  const std::int64_t t = shape.max_tokens;
  const std::int64_t draft_tokens = shape.drafter == nullptr ? 0 : t;
  Activations a;
  a.streams = memory.Add<Bf16>(t, kStreams * d);
  a.draft_streams = memory.Add<Bf16>(draft_tokens, kStreams * d);
  a.draft_input = memory.Add<Bf16>(draft_tokens, draft.input_columns);
  a.hc_post = memory.Add<float>(t, kStreams);
  a.hc_comb = memory.Add<float>(t, kStreams * kStreams);
  a.u = memory.Add<Bf16>(t, d);
  a.y = memory.Add<Bf16>(t, d);
  for (Matrix<float>* table : {&a.window_cos, &a.window_sin, &a.compress_cos, &a.compress_sin}) {
    *table = memory.Add<float>(t, config.qk_rope_head_dim / 2);
  }
  LayOutAttention(memory, config, t, a);
  LayOutMoe(memory, config, t, shape.noted_layers, a);
  a.head_streams = memory.Add<Bf16>(shape.max_logit_rows, kStreams * d);
  a.head_input = memory.Add<Bf16>(shape.max_logit_rows, d);
  a.device_logits =
      memory.Add<float>(shape.has_device_logits ? shape.max_logit_rows : 0, config.vocab_size);
  const std::int64_t draft_rows = draft.embedding_columns > 0 ? shape.max_logit_rows : 0;
  a.draft_hidden = memory.Add<Bf16>(draft_rows, d);
  a.draft_embeddings = memory.Add<Bf16>(draft_rows, draft.embedding_columns);
  a.draft_pairs = memory.Add<Bf16>(draft_rows, d + draft.embedding_columns);
  a.draft_logits = memory.Add<float>(draft_rows, config.vocab_size);
  a.confidences = memory.Add<float>(draft_rows, 1);
  return a;
}

Matrix<float> LayOutLogits(BufferLayout& memory, const ModelConfig& config,
                           const WorkspaceShape& shape) {
  return memory.Add<float>(shape.max_logit_rows, config.vocab_size);
}

// Returns the first n rows of a scratch matrix.
template <class T>
Matrix<T> First(Matrix<T> scratch, std::int64_t n) {
  return scratch.Rows(0, n);
}

}  // namespace

Activations Trim(const Activations& full, std::int64_t n, std::int64_t experts_per_token) {
  Activations a = full;
  a.streams = First(a.streams, n);
  a.draft_streams = First(a.draft_streams, std::min(n, a.draft_streams.rows));
  a.draft_input = First(a.draft_input, std::min(n, a.draft_input.rows));
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
  return LayoutBytes([&](BufferLayout& buffer) { return LayOut(buffer, config, shape); }) +
         LayoutBytes([&](BufferLayout& buffer) { return LayOutLogits(buffer, config, shape); });
}

Result<Workspace> Workspace::Create(Backend& backend, const ModelConfig& config,
                                    const WorkspaceShape& shape) {
  Result<LaidOutBuffer<Activations>> memory =
      AllocateLayout(backend, [&](BufferLayout& buffer) { return LayOut(buffer, config, shape); });
  if (!memory) {
    return MakeError(memory.error().code, "activations of {} tokens: {}", shape.max_tokens,
                     memory.error().message);
  }
  Result<LaidOutBuffer<Matrix<float>>> logits = AllocateLayout(
      backend, [&](BufferLayout& buffer) { return LayOutLogits(buffer, config, shape); },
      MemoryKind::kShared);
  if (!logits) {
    return MakeError(logits.error().code, "logits of {} tokens: {}", shape.max_logit_rows,
                     logits.error().message);
  }
  return Workspace(*std::move(memory), *std::move(logits));
}

}  // namespace fathom::model
