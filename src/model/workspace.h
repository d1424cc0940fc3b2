// Workspace: every activation of one step, allocated once.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "kernels/laid_out_buffer.h"

namespace fathom::model {

struct DrafterKind;

struct WorkspaceShape {
  std::int64_t max_tokens = 0;
  std::int64_t max_logit_rows = 0;
  const DrafterKind* drafter = nullptr;  // null: none
  bool has_device_logits = false;        // a device chooses tokens, from logits in its memory
  std::int64_t noted_layers = 0;         // layers whose experts are noted (ModelParts)
};

// Matrices with max_tokens rows; a step uses the first n. Names follow docs/spec/model.md. d =
// hidden.
struct Activations {
  Matrix<Bf16> streams;        // [t, 4 d]
  Matrix<Bf16> draft_streams;  // [t, 4 d], with a drafter
  Matrix<Bf16> draft_input;    // [t, DraftSizes::input_columns]
  Matrix<float> hc_post;       // [t, 4]
  Matrix<float> hc_comb;       // [t, 16]
  Matrix<Bf16> u;              // [t, d]: input of a sub-layer
  Matrix<Bf16> y;              // [t, d]: output of a sub-layer

  // cos and sin of the two RoPE tables, [t, rope_dims / 2]: window layers and compressed layers.
  Matrix<float> window_cos, window_sin;
  Matrix<float> compress_cos, compress_sin;

  // Attention.
  Matrix<Bf16> qr;         // [t, q_lora_rank]
  Matrix<Bf16> q;          // [t, heads * head_dim]
  Matrix<Bf16> kv;         // [t, head_dim]
  Matrix<Bf16> heads_out;  // [t, heads * head_dim]
  Matrix<Bf16> latent;     // [t, o_groups * o_lora_rank]
  Matrix<float> values;    // [t, 2 * head_dim]: compressor inputs; one with overlap 1 uses half
  Matrix<float> scores;    // [t, 2 * head_dim]
  Matrix<Bf16> index_q;    // [t, index_heads * 128]
  Matrix<std::uint8_t> index_packed;  // [t, index_heads * 68]
  Matrix<Bf16> index_weights;         // [t, index_heads]
  Matrix<std::int32_t> selected;      // [t, index_topk]

  // Mixture of experts.
  Matrix<float> router_logits;  // [t, experts]
  Matrix<std::int32_t> ids;     // [t, experts per token]
  Matrix<float> weights;        // [t, experts per token]
  Matrix<Bf16> gate;            // [t, moe_intermediate]
  Matrix<Bf16> up;              // [t, moe_intermediate]
  Matrix<Bf16> expert_rows;     // [t * experts per token, d]
  // [noted layers * max_tokens, experts per token]: the ids of all layers, in memory of the host.
  Matrix<std::int32_t> noted_ids;

  // The head, max_logit_rows rows.
  Matrix<Bf16> head_streams;    // [rows, 4 d]
  Matrix<Bf16> head_input;      // [rows, d]
  Matrix<float> logits;         // [rows, vocab], in memory that the host can access too
  Matrix<float> device_logits;  // [rows, vocab], from which a device chooses tokens
  // Only for a drafter with embeddings (DraftSizes).
  Matrix<Bf16> draft_hidden;      // [rows, d]: the inputs of the head before their norm
  Matrix<Bf16> draft_embeddings;  // [rows, r = DraftSizes::embedding_columns]
  Matrix<Bf16> draft_pairs;       // [rows, d + r]: rows of both
  Matrix<float> draft_logits;     // [rows, vocab]
  Matrix<float> confidences;      // [rows, 1]
};

// Returns a view of the activations with n rows, for a step of n tokens.
Activations Trim(const Activations& full, std::int64_t n, std::int64_t experts_per_token);

// Owns the memory of the activations. Must not outlive the backend.
class Workspace {
 public:
  static Result<Workspace> Create(Backend& backend, const ModelConfig& config,
                                  const WorkspaceShape& shape);

  Activations& activations() { return memory_.views; }
  const Activations& activations() const { return memory_.views; }
  std::int64_t bytes() const { return memory_.bytes() + logits_.bytes(); }

 private:
  Workspace(LaidOutBuffer<Activations> memory, LaidOutBuffer<Matrix<float>> logits)
      : memory_(std::move(memory)), logits_(std::move(logits)) {
    memory_.views.logits = logits_.views;
  }

  LaidOutBuffer<Activations> memory_;
  LaidOutBuffer<Matrix<float>> logits_;
};

// Returns the bytes that Create would allocate.
std::int64_t WorkspaceBytes(const ModelConfig& config, const WorkspaceShape& shape);

}  // namespace fathom::model
