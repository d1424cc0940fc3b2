#include "measure/slice/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "json/json_value.h"
#include "json/json_writer.h"
#include "model/draft/drafters.h"

namespace fathom::measure {
namespace {

// Returns the published ratios: two layers with special ratios, then 4 and 128 in turn; the last is
// for the draft head.
std::vector<int> PublishedRatios(int first_two, int n_layers) {
  std::vector<int> ratios = {first_two, first_two};
  while (static_cast<int>(ratios.size()) < n_layers) {
    ratios.push_back(ratios.size() % 2 == 0 ? 4 : 128);
  }
  ratios.push_back(0);
  return ratios;
}

// Writes 10 as 10.0, because transformers rejects an integer where its class has a float, and 1e-6
// as 1e-06, not as the double next to the float.
JsonValue Number(float value) {
  if (value == std::floor(value)) return static_cast<double>(value);
  return ParseJson(fmt::format("{}", value)).value_or(JsonValue());
}

}  // namespace

ModelConfig FlashConfig() {
  ModelConfig config;
  config.vocab_size = 129'280;
  config.hidden_size = 4096;
  config.num_hidden_layers = 43;
  config.num_attention_heads = 64;
  config.head_dim = 512;
  config.qk_rope_head_dim = 64;
  config.q_lora_rank = 1024;
  config.o_groups = 8;
  config.o_lora_rank = 1024;
  config.sliding_window = 128;
  config.index_n_heads = 64;
  config.index_head_dim = 128;
  config.index_topk = 512;
  config.moe_intermediate_size = 2048;
  config.n_routed_experts = 256;
  config.n_shared_experts = 1;
  config.num_experts_per_tok = 6;
  config.num_hash_layers = 3;
  config.hc_mult = 4;
  config.hc_sinkhorn_iters = 20;
  config.max_position_embeddings = 1'048'576;
  config.num_nextn_predict_layers = 1;
  config.bos_token_id = 0;
  config.eos_token_id = 1;
  config.compress_ratios = PublishedRatios(0, 43);
  config.rope_theta = 10'000;
  config.compress_rope_theta = 160'000;
  config.routed_scaling_factor = 1.5f;
  config.swiglu_limit = 10;
  config.hc_eps = 1e-6f;
  config.rms_norm_eps = 1e-6f;
  config.rope_scaling = {
      .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65'536};
  config.expert_dtype = ExpertDType::kFp4;
  return config;
}

ModelConfig ProConfig() {
  ModelConfig config = FlashConfig();
  config.hidden_size = 7168;
  config.num_hidden_layers = 61;
  config.num_attention_heads = 128;
  config.q_lora_rank = 1536;
  config.o_groups = 16;
  config.index_topk = 1024;
  config.moe_intermediate_size = 3072;
  config.n_routed_experts = 384;
  config.compress_ratios = PublishedRatios(128, 61);
  config.routed_scaling_factor = 2.5f;
  return config;
}

ModelConfig SliceConfig(ModelConfig whole, const SliceSizes& sizes) {
  whole.vocab_size = sizes.vocab_size;
  whole.num_hidden_layers = static_cast<std::int64_t>(sizes.ratios.size());
  whole.n_routed_experts = sizes.n_experts.value_or(whole.n_routed_experts);
  whole.num_hash_layers = sizes.n_hash_layers;
  whole.num_nextn_predict_layers = 0;
  whole.compress_ratios = sizes.ratios;
  if (sizes.draft != nullptr) {
    sizes.draft->announce(whole);
    std::ranges::copy(sizes.draft->sizes(whole).ratios, std::back_inserter(whole.compress_ratios));
  }
  return whole;
}

std::string ConfigJson(const ModelConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  JsonValue json = {
      {"architectures", JsonValue::Array({"DeepseekV4ForCausalLM"})},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"bos_token_id", config.bos_token_id},
      {"eos_token_id", config.eos_token_id},
      {"expert_dtype", Name(config.expert_dtype.value_or(ExpertDType::kFp4))},
      {"hc_eps", Number(config.hc_eps)},
      {"hc_mult", config.hc_mult},
      {"hc_sinkhorn_iters", config.hc_sinkhorn_iters},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"index_head_dim", config.index_head_dim},
      {"index_n_heads", config.index_n_heads},
      {"index_topk", config.index_topk},
      {"initializer_range", 0.02},
      {"max_position_embeddings", config.max_position_embeddings},
      {"model_type", "deepseek_v4"},
      {"moe_intermediate_size", config.moe_intermediate_size},
      {"n_routed_experts", config.n_routed_experts},
      {"n_shared_experts", config.n_shared_experts},
      {"norm_topk_prob", true},
      {"num_attention_heads", config.num_attention_heads},
      {"num_experts_per_tok", config.num_experts_per_tok},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_hash_layers", config.num_hash_layers},
      {"num_key_value_heads", 1},
      {"num_nextn_predict_layers", config.num_nextn_predict_layers},
      {"o_groups", config.o_groups},
      {"o_lora_rank", config.o_lora_rank},
      {"q_lora_rank", config.q_lora_rank},
      {"qk_rope_head_dim", config.qk_rope_head_dim},
      {"quantization_config",
       {{"activation_scheme", "dynamic"},
        {"fmt", "e4m3"},
        {"quant_method", "fp8"},
        {"scale_fmt", "ue8m0"},
        {"weight_block_size", JsonValue::Array({128, 128})}}},
      {"rms_norm_eps", Number(config.rms_norm_eps)},
      {"rope_scaling",
       {{"beta_fast", Number(rope.beta_fast)},
        {"beta_slow", Number(rope.beta_slow)},
        {"factor", Number(rope.factor)},
        {"original_max_position_embeddings", rope.original_max_position_embeddings},
        {"type", "yarn"}}},
      {"rope_theta", Number(config.rope_theta)},
      {"routed_scaling_factor", Number(config.routed_scaling_factor)},
      {"scoring_func", "sqrtsoftplus"},
      {"sliding_window", config.sliding_window},
      {"swiglu_limit", Number(config.swiglu_limit)},
      {"tie_word_embeddings", false},
      {"topk_method", "noaux_tc"},
      {"torch_dtype", "bfloat16"},
      {"transformers_version", "4.57.1"},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
      {"compress_rope_theta", Number(config.compress_rope_theta)},
      {"compress_ratios", config.compress_ratios},
  };
  if (config.dspark) {
    const DSparkConfig& dspark = *config.dspark;
    json["dspark_block_size"] = dspark.dspark_block_size;
    json["dspark_noise_token_id"] = dspark.dspark_noise_token_id;
    json["dspark_target_layer_ids"] = dspark.dspark_target_layer_ids;
    json["dspark_markov_rank"] = dspark.dspark_markov_rank;
  }
  for (const auto& [name, values] : config.integers) {  // integers of other draft heads
    if (json.Find(name) != nullptr) continue;
    json[name] = values.size() == 1 ? JsonValue(values.front()) : JsonValue(values);
  }
  return WriteJson(json, 2) + "\n";
}

}  // namespace fathom::measure
