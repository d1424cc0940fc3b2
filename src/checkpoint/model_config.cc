#include "checkpoint/model_config.h"

#include <algorithm>

#include "base/file.h"
#include "base/tensor.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/foreign_config.h"
#include "checkpoint/problems.h"

namespace fathom::checkpoint {
namespace {

// FP8 weights have one scale per 128 x 128 block.
constexpr std::int64_t kBlock = 128;
// The 64-wide groups in which the unrotated part of a key is rounded to FP8.
constexpr std::int64_t kKeyGroup = 64;

constexpr ConfigFields::Range<std::int64_t> kTokenRange = {0, 4'194'303};

struct IntegerField {
  std::string_view name;
  std::int64_t ModelConfig::*member;
  ConfigFields::Range<std::int64_t> range;
};

// The upper limits are several times the numbers of the largest published model: a larger number is
// a mistake, and memory of that size should not even be requested.
constexpr IntegerField kIntegerFields[] = {
    {"vocab_size", &ModelConfig::vocab_size, {1, kTokenRange.highest + 1}},
    {"hidden_size", &ModelConfig::hidden_size, {1, 65'536}},
    {"num_hidden_layers", &ModelConfig::num_hidden_layers, {1, 1'024}},
    {"num_attention_heads", &ModelConfig::num_attention_heads, {1, 1'024}},
    {"head_dim", &ModelConfig::head_dim, {1, 4'096}},
    {"qk_rope_head_dim", &ModelConfig::qk_rope_head_dim, {2, 4'096}},
    {"q_lora_rank", &ModelConfig::q_lora_rank, {1, 65'536}},
    {"o_groups", &ModelConfig::o_groups, {1, 1'024}},
    {"o_lora_rank", &ModelConfig::o_lora_rank, {1, 65'536}},
    {"sliding_window", &ModelConfig::sliding_window, {1, 65'536}},
    {"index_n_heads", &ModelConfig::index_n_heads, {1, 1'024}},
    // The indexer rotates its vectors with a Hadamard matrix of this size.
    {"index_head_dim", &ModelConfig::index_head_dim, {128, 128}},
    {"index_topk", &ModelConfig::index_topk, {1, 1'048'576}},
    {"moe_intermediate_size", &ModelConfig::moe_intermediate_size, {1, 65'536}},
    {"n_routed_experts", &ModelConfig::n_routed_experts, {1, 8'192}},
    {"n_shared_experts", &ModelConfig::n_shared_experts, {1, 1}},
    {"num_experts_per_tok", &ModelConfig::num_experts_per_tok, {1, 64}},
    {"num_hash_layers", &ModelConfig::num_hash_layers, {0, 1'024}},
    {"hc_mult", &ModelConfig::hc_mult, {4, 4}},
    {"hc_sinkhorn_iters", &ModelConfig::hc_sinkhorn_iters, {1, 1'000}},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, {1, 16'777'216}},
    {"num_nextn_predict_layers", &ModelConfig::num_nextn_predict_layers, {0, 16}},
    {"bos_token_id", &ModelConfig::bos_token_id, kTokenRange},
};

void ReadNumbers(ConfigFields& fields, ModelConfig& config) {
  for (const IntegerField& field : kIntegerFields) {
    config.*field.member = fields.Integer(field.name, field.range);
  }
  // The official code has these defaults; the files of the first releases omit some fields.
  config.hc_eps = fields.Number("hc_eps", {1e-30f, 0.1f}, 1e-6f);
  config.rms_norm_eps = fields.Number("rms_norm_eps", {1e-30f, 0.1f}, 1e-6f);
  config.swiglu_limit = fields.Number("swiglu_limit", {1e-3f, 1e6f}, 10.0f);
  config.rope_theta = fields.Number("rope_theta", {1.0f, 1e12f});
  config.compress_rope_theta = fields.Number("compress_rope_theta", {1.0f, 1e12f});
  config.routed_scaling_factor = fields.Number("routed_scaling_factor", {1e-6f, 1e6f});
  for (const std::int64_t ratio : fields.Integers("compress_ratios", {0, 128}, 2'048)) {
    config.compress_ratios.push_back(static_cast<int>(ratio));
  }
}

// Reads the end token, or a list of end tokens, as in some generation_config.json.
void ReadEosTokens(ConfigFields& fields, ModelConfig& config) {
  constexpr std::string_view kName = "eos_token_id";
  const JsonValue* value = fields.Find(kName);
  if (value == nullptr || !value->IsArray()) {
    config.eos_token_id = fields.Integer(kName, kTokenRange);
    return;
  }
  constexpr std::int64_t kMost = 64;
  config.other_eos_token_ids = fields.Integers(kName, kTokenRange, kMost);
  if (config.other_eos_token_ids.empty()) return;
  config.eos_token_id = config.other_eos_token_ids.front();
  config.other_eos_token_ids.erase(config.other_eos_token_ids.begin());
}

void ReadRopeScaling(ConfigFields& fields, RopeScaling& scaling) {
  const bool renamed = fields.Has("rope_scaling.rope_type");  // newer writers
  fields.Choice(renamed ? "rope_scaling.rope_type" : "rope_scaling.type", {"yarn"});
  scaling.factor = fields.Number("rope_scaling.factor", {1.0f, 1e4f});
  scaling.beta_fast = fields.Number("rope_scaling.beta_fast", {1e-3f, 1e6f});
  scaling.beta_slow = fields.Number("rope_scaling.beta_slow", {1e-3f, 1e6f});
  scaling.original_max_position_embeddings =
      fields.Integer("rope_scaling.original_max_position_embeddings", {1, 16'777'216});
}

// Requires the values that this program supports.
void RequireKnownVariants(ConfigFields& fields) {
  fields.Choice("scoring_func", {"sqrtsoftplus"});
  fields.Choice("topk_method", {"noaux_tc"});
  fields.Choice("hidden_act", {"silu"});
  fields.Require("norm_topk_prob", true);
  fields.Require("attention_bias", false);
  fields.Require("tie_word_embeddings", false);
  fields.Integer("num_key_value_heads", {1, 1}, 1);
  fields.Choice("quantization_config.fmt", {"e4m3"});
  constexpr std::string_view kBlockSize = "quantization_config.weight_block_size";
  if (fields.Has(kBlockSize)) {
    const std::vector<std::int64_t> block = fields.Integers(kBlockSize, {1, 65'536}, 2);
    if (!block.empty() && block != std::vector<std::int64_t>{kBlock, kBlock}) {
      fields.AddProblem(kBlockSize, "[128, 128]", ShapeToString(block));
    }
  }
}

void ReadExpertDType(ConfigFields& fields, ModelConfig& config) {
  const std::optional<std::size_t> choice = fields.Choice("expert_dtype", {"fp4", "fp8"});
  if (choice) {
    config.expert_dtype = *choice == 0 ? ExpertDType::kFp4 : ExpertDType::kFp8;
  }
}

void ReadDSpark(ConfigFields& fields, ModelConfig& config) {
  if (!fields.Has("dspark_block_size")) return;
  DSparkConfig& dspark = config.dspark.emplace();
  dspark.dspark_block_size = fields.Integer("dspark_block_size", {1, 64});
  dspark.dspark_markov_rank = fields.Integer("dspark_markov_rank", {1, 65'536});
  dspark.dspark_noise_token_id = fields.Integer("dspark_noise_token_id", kTokenRange);
  const std::int64_t n_layers = config.num_hidden_layers > 0 ? config.num_hidden_layers : 1'024;
  for (const std::int64_t layer :
       fields.Integers("dspark_target_layer_ids", {0, n_layers - 1}, 16)) {
    dspark.dspark_target_layer_ids.push_back(static_cast<int>(layer));
  }
  dspark.n_stages = static_cast<int>(
      std::max<std::int64_t>(std::ssize(config.compress_ratios) - config.num_hidden_layers, 1));
}

// A field with an earlier problem is 0 and passes, so that each mistake causes one line.
void CheckMultiple(ConfigFields& fields, std::string_view name, std::int64_t value,
                   std::int64_t divisor) {
  if (value % divisor != 0) {
    fields.AddProblem(name, fmt::format("a multiple of {}", divisor), fmt::to_string(value));
  }
}

void CheckAtMost(ConfigFields& fields, std::string_view name, std::int64_t value,
                 std::string_view limit_name, std::int64_t limit) {
  if (limit > 0 && value > limit) {
    fields.AddProblem(name, fmt::format("at most {} {}", limit_name, limit), fmt::to_string(value));
  }
}

void CheckIsToken(ConfigFields& fields, std::string_view name, std::int64_t value,
                  const ModelConfig& config) {
  if (config.vocab_size > 0 && value >= config.vocab_size) {
    fields.AddProblem(name, fmt::format("a token below vocab_size {}", config.vocab_size),
                      fmt::to_string(value));
  }
}

// Every FP8 matrix must consist of whole blocks, and every group of heads is one matrix.
void CheckDivisibility(ConfigFields& fields, const ModelConfig& config) {
  CheckMultiple(fields, "hidden_size", config.hidden_size, kBlock);
  CheckMultiple(fields, "q_lora_rank", config.q_lora_rank, kBlock);
  CheckMultiple(fields, "moe_intermediate_size", config.moe_intermediate_size, kBlock);
  CheckMultiple(fields, "o_groups * o_lora_rank", config.o_groups * config.o_lora_rank, kBlock);
  CheckMultiple(fields, "qk_rope_head_dim", config.qk_rope_head_dim, 2);
  CheckMultiple(fields, "num_attention_heads * head_dim",
                config.num_attention_heads * config.head_dim, kBlock);
  if (config.o_groups > 0 && config.num_attention_heads > 0) {
    if (config.num_attention_heads % config.o_groups != 0) {
      fields.AddProblem("num_attention_heads",
                        fmt::format("a multiple of o_groups {}", config.o_groups),
                        fmt::to_string(config.num_attention_heads));
    } else {
      CheckMultiple(fields, "num_attention_heads * head_dim / o_groups",
                    config.num_attention_heads / config.o_groups * config.head_dim, kBlock);
    }
  }
  if (config.head_dim > 0 && config.qk_rope_head_dim > 0) {
    CheckAtMost(fields, "qk_rope_head_dim", config.qk_rope_head_dim, "head_dim", config.head_dim);
    CheckMultiple(fields, "head_dim - qk_rope_head_dim", config.head_dim - config.qk_rope_head_dim,
                  kKeyGroup);
    // The indexer rotates the last dimensions of its own heads by the same angles.
    CheckAtMost(fields, "qk_rope_head_dim", config.qk_rope_head_dim, "index_head_dim",
                config.index_head_dim);
  }
}

void CheckCounts(ConfigFields& fields, const ModelConfig& config) {
  CheckAtMost(fields, "num_experts_per_tok", config.num_experts_per_tok, "n_routed_experts",
              config.n_routed_experts);
  CheckAtMost(fields, "num_hash_layers", config.num_hash_layers, "num_hidden_layers",
              config.num_hidden_layers);
  CheckIsToken(fields, "bos_token_id", config.bos_token_id, config);
  CheckIsToken(fields, "eos_token_id", config.eos_token_id, config);
  for (const std::int64_t other : config.other_eos_token_ids) {
    CheckIsToken(fields, "eos_token_id", other, config);
  }
  const auto n_ratios = static_cast<std::int64_t>(config.compress_ratios.size());
  if (n_ratios > 0 && n_ratios < config.num_hidden_layers) {
    fields.AddProblem("compress_ratios",
                      fmt::format("an entry for each of the {} layers", config.num_hidden_layers),
                      fmt::format("{} entries", n_ratios));
  }
  if (config.dspark) {
    const std::vector<int>& targets = config.dspark->dspark_target_layer_ids;
    if (std::ranges::adjacent_find(targets, std::greater_equal()) != targets.end()) {
      fields.AddProblem("dspark_target_layer_ids", "ascending layers, each once",
                        fields.Describe("dspark_target_layer_ids"));
    }
    CheckIsToken(fields, "dspark_noise_token_id", config.dspark->dspark_noise_token_id, config);
  }
  for (std::size_t i = 0; i < config.compress_ratios.size(); ++i) {
    const int ratio = config.compress_ratios[i];
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      fields.AddProblem("compress_ratios", "0, 4 or 128",
                        fmt::format("{} at position {}", ratio, i));
      return;
    }
  }
}

Status CheckModelType(const ConfigFields& fields, std::string_view file_name) {
  const std::optional<std::string> type = fields.Text("model_type");
  if (type == "deepseek_v4") return {};
  if (type == "deepseek_v41") {
    return MakeError(
        ErrorCode::kUnsupported,
        "{}: model_type deepseek_v41: DeepSeek-V4.1 is another architecture (layers that "
        "share keys, n-gram memory, 32 x 32 FP8 blocks, images) and cannot be run; "
        "expected deepseek_v4",
        file_name);
  }
  return MakeError(ErrorCode::kUnsupported, "{}: model_type: expected \"deepseek_v4\", found {}",
                   file_name, fields.Describe("model_type"));
}

}  // namespace

std::string_view Name(ExpertDType dtype) { return dtype == ExpertDType::kFp4 ? "fp4" : "fp8"; }

Result<ModelConfig> ParseModelConfig(std::string_view text, std::string_view file_name) {
  Result<ConfigFields> fields = ConfigFields::Parse(text, file_name);
  if (!fields) return Unexpected(std::move(fields.error()));
  if (const Status known = CheckModelType(*fields, file_name); !known) {
    return Unexpected(known.error());
  }
  if (const Status published = CheckIsPublishedForm(*fields, file_name); !published) {
    return Unexpected(published.error());
  }
  ModelConfig config;
  ReadNumbers(*fields, config);
  ReadEosTokens(*fields, config);
  ReadRopeScaling(*fields, config.rope_scaling);
  ReadExpertDType(*fields, config);
  ReadDSpark(*fields, config);
  config.integers = fields->AllIntegers();
  RequireKnownVariants(*fields);
  CheckDivisibility(*fields, config);
  CheckCounts(*fields, config);
  CheckFormsAgree(*fields, config);
  const std::span<const Error> problems = fields->problems();
  if (!problems.empty()) return Unexpected(SummarizeProblems(file_name, problems, problems.size()));
  return config;
}

Result<ModelConfig> ReadModelConfig(const std::filesystem::path& path) {
  const Result<std::string> text = ReadFile(path, kMostSettingsBytes);
  if (!text) return Unexpected(text.error());
  return ParseModelConfig(*text, path.string());
}

}  // namespace fathom::checkpoint
