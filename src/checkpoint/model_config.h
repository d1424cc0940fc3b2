// ModelConfig: config.json of a native DeepSeek-V4 checkpoint, validated (docs/spec/model.md 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom::checkpoint {

// The storage format of routed experts; each tensor's own dtype decides how the tensor is read.
enum class ExpertDType {
  kFp4,  // I8 with two E2M1 values a byte, one E8M0 scale per row and 32 inputs
  kFp8,  // F8_E4M3, one scale per 128 x 128 block
};
// Returns "fp4", "fp8".
std::string_view Name(ExpertDType dtype);

// YaRN, only on layers with a compression ratio.
struct RopeScaling {
  float factor = 0;
  float beta_fast = 0;
  float beta_slow = 0;
  std::int64_t original_max_position_embeddings = 0;  // tokens
};

// The drafter of Flash-0731 and *-DSpark (docs/spec/mtp.md 2.1).
struct DSparkConfig {
  // The number of blocks of the drafter: the number of entries of compress_ratios after the layers,
  // until the tensors are known (AdoptDraftHead).
  int n_stages = 0;
  std::int64_t dspark_block_size = 0;  // tokens drafted in one pass
  std::int64_t dspark_markov_rank = 0;
  std::int64_t dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;  // ascending
};

// The fields have the names of the file. ReadModelConfig has checked them: every size is positive
// and within its limits, and sizes are divisible as the layers need.
struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;  // the last dimensions of a head
  std::int64_t q_lora_rank = 0;
  std::int64_t o_groups = 0;
  std::int64_t o_lora_rank = 0;     // per group
  std::int64_t sliding_window = 0;  // tokens
  std::int64_t index_n_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;  // compressed entries kept per query in ratio-4 layers
  std::int64_t moe_intermediate_size = 0;
  std::int64_t n_routed_experts = 0;
  std::int64_t n_shared_experts = 0;  // always 1
  std::int64_t num_experts_per_tok = 0;
  std::int64_t num_hash_layers = 0;  // the first layers, which route by token id
  std::int64_t hc_mult = 0;          // residual streams; always 4
  std::int64_t hc_sinkhorn_iters = 0;
  std::int64_t max_position_embeddings = 0;  // tokens
  // The number of draft layers in the file; the tensors have the true number (FindDraftHead).
  std::int64_t num_nextn_predict_layers = 0;
  std::int64_t bos_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::vector<std::int64_t> other_eos_token_ids;  // used if the file has a list
  // 0 (window only), 4 or 128; at least one per layer, then one per draft layer.
  std::vector<int> compress_ratios;
  float rope_theta = 0;           // for layers of ratio 0
  float compress_rope_theta = 0;  // for the other layers
  float routed_scaling_factor = 0;
  float swiglu_limit = 0;
  float hc_eps = 0;
  float rms_norm_eps = 0;
  RopeScaling rope_scaling;
  std::optional<ExpertDType> expert_dtype;  // missing means fp4
  std::optional<DSparkConfig> dspark;       // present if the file has dspark_block_size
  // All fields of the file that are integers or lists of integers, by name, including the fields
  // above: a drafter reads the numbers of its head here.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> integers;
};

// Unknown fields are ignored. One error names all wrong fields, one per line, with the expected and
// the found value. Refused before that: a model_type other than deepseek_v4, and files that other
// programs have written (foreign_config.h).
Result<ModelConfig> ParseModelConfig(std::string_view text, std::string_view file_name);

// ParseModelConfig for a file.
Result<ModelConfig> ReadModelConfig(const std::filesystem::path& path);

}  // namespace fathom::checkpoint
