#include "model/weights.h"

#include <fmt/format.h>

#include "model/draft/drafters.h"
#include "model/weight_scope.h"

namespace fathom {
namespace {

CompressorWeights BindCompressor(const WeightScope& scope, const ModelConfig& config, int ratio,
                                 std::int64_t width) {
  const std::int64_t inputs = (ratio == 4 ? 2 : 1) * width;
  return {
      .wkv = scope.Bf16Matrix("wkv", inputs, config.hidden_size),
      .wgate = scope.Bf16Matrix("wgate", inputs, config.hidden_size),
      .ape = scope.Table<float>("ape", DType::kF32, ratio, inputs).data,
      .norm = scope.Vector<Bf16>("norm.weight", DType::kBF16, width),
  };
}

AttentionWeights BindAttention(const WeightScope& scope, const ModelConfig& config, int ratio) {
  const std::int64_t heads_dim = config.num_attention_heads * config.head_dim;
  const std::int64_t latent = config.o_groups * config.o_lora_rank;
  AttentionWeights attention{
      .wq_a = scope.Fp8Matrix("wq_a", config.q_lora_rank, config.hidden_size),
      .wq_b = scope.Fp8Matrix("wq_b", heads_dim, config.q_lora_rank),
      .wkv = scope.Fp8Matrix("wkv", config.head_dim, config.hidden_size),
      .wo_a = scope.Fp8OrBf16Matrix("wo_a", latent, heads_dim / config.o_groups),
      .wo_b = scope.RowParallel("wo_b", config.hidden_size, latent),
      .q_norm = scope.Vector<Bf16>("q_norm.weight", DType::kBF16, config.q_lora_rank),
      .kv_norm = scope.Vector<Bf16>("kv_norm.weight", DType::kBF16, config.head_dim),
      .attn_sink = scope.Vector<float>("attn_sink", DType::kF32, config.num_attention_heads),
  };
  if (ratio != 0) {
    attention.compressor =
        BindCompressor(scope.Inner("compressor."), config, ratio, config.head_dim);
  }
  if (ratio == 4) {
    const WeightScope indexer = scope.Inner("indexer.");
    attention.indexer = {
        .wq_b = indexer.Fp8Matrix("wq_b", config.index_n_heads * config.index_head_dim,
                                  config.q_lora_rank),
        .weights_proj =
            indexer.Bf16Matrix("weights_proj", config.index_n_heads, config.hidden_size),
        .compressor =
            BindCompressor(indexer.Inner("compressor."), config, ratio, config.index_head_dim),
    };
  }
  return attention;
}

MoeWeights BindMoe(const WeightScope& scope, const ModelConfig& config, bool hash_routed) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = config.moe_intermediate_size;
  MoeWeights moe{.name = scope.Name(),
                 .gate = scope.Bf16Matrix("gate", config.n_routed_experts, hidden)};
  if (hash_routed) {
    moe.tid2eid = scope.Ids("gate.tid2eid", config.vocab_size, config.num_experts_per_tok);
  } else {
    moe.bias = scope.Vector<float>("gate.bias", DType::kF32, config.n_routed_experts);
  }
  const WeightScope shared = scope.Inner("shared_experts.");
  moe.shared_experts = {.w1 = shared.Fp8Matrix("w1", width, hidden),
                        .w2 = shared.RowParallel("w2", hidden, width),
                        .w3 = shared.Fp8Matrix("w3", width, hidden)};
  moe.experts.reserve(static_cast<std::size_t>(config.n_routed_experts));
  for (std::int64_t e = 0; e < config.n_routed_experts; ++e) {
    const WeightScope expert = scope.Inner(fmt::format("experts.{}.", e));
    moe.experts.push_back({.w1 = expert.ExpertMatrix("w1", width, hidden),
                           .w2 = expert.ExpertMatrix("w2", hidden, width),
                           .w3 = expert.ExpertMatrix("w3", width, hidden)});
  }
  return moe;
}

}  // namespace

BlockWeights BindBlock(const WeightScope& scope, const ModelConfig& config, std::int64_t index,
                       int ratio, bool hash_routed) {
  return {
      .index = index,
      .ratio = ratio,
      .attn_norm = scope.Vector<Bf16>("attn_norm.weight", DType::kBF16, config.hidden_size),
      .ffn_norm = scope.Vector<Bf16>("ffn_norm.weight", DType::kBF16, config.hidden_size),
      .hc_attn = scope.HyperConnection("hc_attn", config.hidden_size, false),
      .hc_ffn = scope.HyperConnection("hc_ffn", config.hidden_size, false),
      .attn = BindAttention(scope.Inner("attn."), config, ratio),
      .ffn = BindMoe(scope.Inner("ffn."), config, hash_routed),
  };
}

Weight WithoutData(Weight weight) {
  weight.data = nullptr;
  weight.scales = nullptr;
  return weight;
}

ExpertWeights WithoutData(const ExpertWeights& expert) {
  return {WithoutData(expert.w1), WithoutData(expert.w2), WithoutData(expert.w3)};
}

ModelWeights BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                         const DrafterKind* drafter, WeightBinder& binder) {
  ModelWeights weights;
  WeightSource source{checkpoint, binder, weights.aligned_copies};
  const WeightScope scope(source, "");
  const std::int64_t hidden = config.hidden_size;
  weights.embed = scope.Table<Bf16>("embed.weight", DType::kBF16, config.vocab_size, hidden);
  weights.hc_head = scope.HyperConnection("hc_head", hidden, true);
  weights.norm = scope.Vector<Bf16>("norm.weight", DType::kBF16, hidden);
  weights.head = scope.Bf16Matrix("head", config.vocab_size, hidden);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    weights.layers.push_back(BindBlock(scope.Inner(fmt::format("layers.{}.", i)), config, i,
                                       config.compress_ratios[static_cast<std::size_t>(i)],
                                       i < config.num_hash_layers));
  }
  if (drafter != nullptr) {
    weights.draft = BindDraft(scope, config, *drafter);
  }
  return weights;
}

Result<ModelWeights> BindWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                                 const DrafterKind* drafter) {
  WeightBinder binder(checkpoint);
  ModelWeights weights = BindWeights(checkpoint, config, drafter, binder);
  if (Status bound = binder.Finish(); !bound) return Unexpected(bound.error());
  return weights;
}

}  // namespace fathom
