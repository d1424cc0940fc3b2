#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FlashText() {
  return testing::ReadFile(
      testing::ProjectPath("tests/checkpoint/data/config.DeepSeek-V4-Flash-0731.json"));
}

// The Flash configuration with one field set to `value` (JSON), or removed if `value` is empty.
std::string With(std::string text, std::string_view field, std::string_view value) {
  const std::string quoted = fmt::format("\"{}\":", field);
  const std::size_t begin = text.find(quoted);
  if (begin == std::string::npos) {
    return text.insert(1, fmt::format("\"{}\": {},", field, value));
  }
  std::size_t end = begin + quoted.size();
  for (int depth = 0; depth > 0 || (text[end] != ',' && text[end] != '}'); ++end) {
    depth += text[end] == '[' || text[end] == '{';
    depth -= text[end] == ']' || text[end] == '}';
  }
  if (!value.empty()) {
    return text.replace(begin, end - begin, fmt::format("{} {}", quoted, value));
  }
  // The comma behind it goes too, or the one before it at the end of an object.
  if (text[end] == ',') {
    return text.erase(begin, end + 1 - begin);
  }
  const std::size_t comma = text.rfind(',', begin);
  return text.erase(comma, end - comma);
}

std::string ErrorFrom(std::string_view text) {
  const Result<ModelConfig> config = ParseModelConfig(text, "config.json");
  return config ? "no error" : config.error().message;
}
std::string ErrorWith(std::string_view field, std::string_view value) {
  return ErrorFrom(With(FlashText(), field, value));
}

TEST(ModelConfig, Flash0731) {
  const Result<ModelConfig> config = ParseModelConfig(FlashText(), "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->vocab_size, 129'280);
  EXPECT_EQ(config->hidden_size, 4'096);
  EXPECT_EQ(config->num_hidden_layers, 43);
  EXPECT_EQ(config->num_attention_heads, 64);
  EXPECT_EQ(config->head_dim, 512);
  EXPECT_EQ(config->qk_rope_head_dim, 64);
  EXPECT_EQ(config->q_lora_rank, 1'024);
  EXPECT_EQ(config->o_groups, 8);
  EXPECT_EQ(config->o_lora_rank, 1'024);
  EXPECT_EQ(config->sliding_window, 128);
  EXPECT_EQ(config->index_n_heads, 64);
  EXPECT_EQ(config->index_head_dim, 128);
  EXPECT_EQ(config->index_topk, 512);
  EXPECT_EQ(config->moe_intermediate_size, 2'048);
  EXPECT_EQ(config->n_routed_experts, 256);
  EXPECT_EQ(config->n_shared_experts, 1);
  EXPECT_EQ(config->num_experts_per_tok, 6);
  EXPECT_EQ(config->num_hash_layers, 3);
  EXPECT_EQ(config->hc_mult, 4);
  EXPECT_EQ(config->hc_sinkhorn_iters, 20);
  EXPECT_EQ(config->max_position_embeddings, 1'048'576);
  EXPECT_EQ(config->num_nextn_predict_layers, 1);
  EXPECT_EQ(config->bos_token_id, 0);
  EXPECT_EQ(config->eos_token_id, 1);
  EXPECT_EQ(config->compress_ratios.size(), 46u);
  EXPECT_EQ(config->compress_ratios[3], 128);
  EXPECT_EQ(config->rope_theta, 10'000.0f);
  EXPECT_EQ(config->compress_rope_theta, 160'000.0f);
  EXPECT_EQ(config->routed_scaling_factor, 1.5f);
  EXPECT_EQ(config->swiglu_limit, 10.0f);
  EXPECT_EQ(config->hc_eps, 1e-6f);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_EQ(config->rope_scaling.factor, 16.0f);
  EXPECT_EQ(config->rope_scaling.beta_fast, 32.0f);
  EXPECT_EQ(config->rope_scaling.beta_slow, 1.0f);
  EXPECT_EQ(config->rope_scaling.original_max_position_embeddings, 65'536);
  EXPECT_EQ(config->expert_dtype, ExpertDType::kFp4);
  ASSERT_TRUE(config->dspark);
  EXPECT_EQ(config->dspark->dspark_block_size, 5);
  EXPECT_EQ(config->dspark->dspark_markov_rank, 256);
  EXPECT_EQ(config->dspark->dspark_noise_token_id, 128'799);
  EXPECT_THAT(config->dspark->dspark_target_layer_ids, ElementsAre(40, 41, 42));
}

TEST(ModelConfig, ReadsTheOthers) {
  for (const char* model : {"Flash", "Pro"}) {
    const Result<ModelConfig> config = ReadModelConfig(testing::ProjectPath(
        fmt::format("tests/checkpoint/data/config.DeepSeek-V4-{}.json", model)));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_FALSE(config->dspark);
  }
  const Result<ModelConfig> fairy =
      ReadModelConfig(testing::ProjectPath("models/fairy/config.json"));
  ASSERT_TRUE(fairy) << fairy.error().message;
  EXPECT_EQ(fairy->rope_scaling.original_max_position_embeddings, 4'096);
}

TEST(ModelConfig, ReadsSharedData) {
  const auto oracle = testing::SharedData("oracle");
  const auto published = testing::SharedData("data/tokenizer");
  if (!oracle || !published) GTEST_SKIP() << testing::kNoSharedData;
  for (const char* name : {"flash-mini", "pro-mini", "base-mini"}) {
    const Result<ModelConfig> config = ReadModelConfig(*oracle / name / "config.json");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->expert_dtype,
              name == std::string("base-mini") ? ExpertDType::kFp8 : ExpertDType::kFp4);
  }
  for (const char* name : {"Flash", "Pro", "Flash-0731"}) {
    const std::string file = fmt::format("config.DeepSeek-V4-{}.json", name);
    EXPECT_EQ(testing::ReadFile(*published / file),
              testing::ReadFile(testing::ProjectPath("tests/checkpoint/data") / file))
        << "the copy in the project is out of date";
  }
}

TEST(ModelConfig, Defaults) {
  std::string text = FlashText();
  for (const char* field :
       {"hc_eps", "rms_norm_eps", "swiglu_limit", "expert_dtype", "num_key_value_heads",
        "scoring_func", "topk_method", "hidden_act", "norm_topk_prob", "attention_bias",
        "tie_word_embeddings", "quantization_config", "architectures", "torch_dtype"}) {
    text = With(std::move(text), field, "");
    EXPECT_THAT(text, Not(HasSubstr(fmt::format("\"{}\"", field))));
  }
  const Result<ModelConfig> config = ParseModelConfig(text, "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->hc_eps, 1e-6f);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_EQ(config->swiglu_limit, 10.0f);
  EXPECT_EQ(config->expert_dtype, std::nullopt);
  EXPECT_EQ(ErrorWith("expert_dtype", "null"), "no error");
}

TEST(ModelConfig, OtherFieldsAreRequired) {
  for (const char* field : {"vocab_size",
                            "hidden_size",
                            "num_hidden_layers",
                            "num_attention_heads",
                            "head_dim",
                            "qk_rope_head_dim",
                            "q_lora_rank",
                            "o_groups",
                            "o_lora_rank",
                            "sliding_window",
                            "index_n_heads",
                            "index_head_dim",
                            "index_topk",
                            "moe_intermediate_size",
                            "n_routed_experts",
                            "n_shared_experts",
                            "num_experts_per_tok",
                            "num_hash_layers",
                            "hc_mult",
                            "hc_sinkhorn_iters",
                            "max_position_embeddings",
                            "num_nextn_predict_layers",
                            "bos_token_id",
                            "eos_token_id",
                            "compress_ratios",
                            "rope_theta",
                            "compress_rope_theta",
                            "routed_scaling_factor",
                            "factor",
                            "beta_fast",
                            "beta_slow",
                            "original_max_position_embeddings",
                            "dspark_markov_rank",
                            "dspark_noise_token_id",
                            "dspark_target_layer_ids"}) {
    EXPECT_THAT(ErrorWith(field, ""),
                AllOf(HasSubstr("1 problem with config.json:\n"),
                      HasSubstr(fmt::format("{}: expected ", field)), HasSubstr("found nothing")))
        << field;
  }
  EXPECT_THAT(ErrorWith("rope_scaling", ""), HasSubstr("4 problems with config.json:"));
}

struct BadValue {
  const char* field;
  const char* value;
  const char* message;
  friend void PrintTo(const BadValue& bad, std::ostream* out) {
    *out << bad.field << ": " << bad.value;
  }
};

class ModelConfigBadValue : public ::testing::TestWithParam<BadValue> {};

TEST_P(ModelConfigBadValue, IsRefused) {
  EXPECT_THAT(ErrorWith(GetParam().field, GetParam().value), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Types, ModelConfigBadValue,
    ::testing::Values(
        BadValue{"hidden_size", "4096.5",
                 "hidden_size: expected an integer from 1 to 65536, found 4096.5"},
        BadValue{"hidden_size", "4096.0", "found 4096.0"},
        BadValue{"hidden_size", "\"4096\"", "found '4096'"},
        BadValue{"hidden_size", "true", "found true"},
        BadValue{"hidden_size", "[4096]", "found a list of 1"},
        BadValue{"hidden_size", "{}", "found an object"},
        BadValue{"hidden_size", "null", "found nothing"},
        BadValue{"hidden_size", "18446744073709551615", "found 18446744073709551615"},
        BadValue{"rope_theta", "\"10000\"", "rope_theta: expected a number from 1 to 1e+12"},
        BadValue{"rope_scaling", "3", "rope_scaling.factor: expected a number"},
        BadValue{"compress_ratios", "4", "compress_ratios: expected a list of 1 to 2048 integers"},
        BadValue{"compress_ratios", "[]", "found a list of 0"},
        BadValue{"compress_ratios", "[0, 4.5]", "found 4.5 at position 1"},
        BadValue{"dspark_target_layer_ids", "[40, \"a\"]", "found 'a' at position 1"},
        BadValue{"attention_bias", "0", "attention_bias: expected false, found 0"},
        BadValue{"scoring_func", "1", "scoring_func: expected \"sqrtsoftplus\", found 1"}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, ModelConfigBadValue,
    ::testing::Values(
        BadValue{"hidden_size", "0", "an integer from 1 to 65536, found 0"},
        BadValue{"hidden_size", "-4096", "found -4096"},
        BadValue{"hidden_size", "1073741824", "an integer from 1 to 65536, found 1073741824"},
        BadValue{"vocab_size", "100000000000", "vocab_size: expected an integer from 1 to 4194304"},
        BadValue{"num_hidden_layers", "5000", "an integer from 1 to 1024, found 5000"},
        BadValue{"n_routed_experts", "0", "n_routed_experts: expected an integer from 1"},
        BadValue{"n_shared_experts", "2", "n_shared_experts: expected 1, found 2"},
        BadValue{"hc_mult", "8", "hc_mult: expected 4, found 8"},
        BadValue{"index_head_dim", "64", "index_head_dim: expected 128, found 64"},
        BadValue{"index_n_heads", "0", "index_n_heads: expected an integer from 1"},
        BadValue{"sliding_window", "0", "sliding_window: expected an integer from 1"},
        BadValue{"max_position_embeddings", "99999999999", "from 1 to 16777216"},
        BadValue{"num_hash_layers", "-1", "num_hash_layers: expected an integer from 0"},
        BadValue{"num_key_value_heads", "8", "num_key_value_heads: expected 1, found 8"},
        BadValue{"rms_norm_eps", "0", "rms_norm_eps: expected a number from 1e-30 to 0.1, found 0"},
        BadValue{"rms_norm_eps", "-1e-6", "found -1e-6"},
        BadValue{"hc_eps", "1e300", "hc_eps: expected a number"},
        BadValue{"swiglu_limit", "-10", "swiglu_limit: expected a number"},
        BadValue{"rope_theta", "0", "rope_theta: expected a number"},
        BadValue{"factor", "0.5", "rope_scaling.factor: expected a number from 1 to 10000"},
        BadValue{"compress_ratios", "[-4]", "found -4 at position 0"},
        BadValue{"dspark_block_size", "0", "dspark_block_size: expected an integer from 1 to 64"},
        BadValue{"dspark_noise_token_id", "129280", "a token below vocab_size 129280"},
        BadValue{"dspark_target_layer_ids", "[43]", "integers from 0 to 42, found 43"},
        BadValue{"eos_token_id", "129280",
                 "eos_token_id: expected a token below vocab_size 129280, found 129280"},
        BadValue{"bos_token_id", "200000", "bos_token_id: expected a token below"}));

INSTANTIATE_TEST_SUITE_P(
    Relations, ModelConfigBadValue,
    ::testing::Values(
        BadValue{"hidden_size", "4100", "hidden_size: expected a multiple of 128, found 4100"},
        BadValue{"q_lora_rank", "1000", "q_lora_rank: expected a multiple of 128"},
        BadValue{"moe_intermediate_size", "2049", "moe_intermediate_size: expected a multiple"},
        BadValue{"o_lora_rank", "1001", "o_groups * o_lora_rank: expected a multiple of 128"},
        BadValue{"num_attention_heads", "63",
                 "num_attention_heads: expected a multiple of o_groups 8, found 63"},
        BadValue{"head_dim", "520", "head_dim - qk_rope_head_dim: expected a multiple of 64"},
        BadValue{"head_dim", "72",
                 "num_attention_heads * head_dim / o_groups: expected a multiple"},
        BadValue{"head_dim", "32", "qk_rope_head_dim: expected at most head_dim 32, found 64"},
        BadValue{"qk_rope_head_dim", "63", "qk_rope_head_dim: expected a multiple of 2, found 63"},
        BadValue{"qk_rope_head_dim", "192", "at most index_head_dim 128, found 192"},
        BadValue{"n_routed_experts", "5",
                 "num_experts_per_tok: expected at most n_routed_experts 5, found 6"},
        BadValue{"num_hash_layers", "44", "at most num_hidden_layers 43, found 44"},
        BadValue{"compress_ratios", "[0, 4, 128]",
                 "compress_ratios: expected an entry for each of the 43 layers, found 3 entries"},
        BadValue{"compress_ratios", "[0, 4, 127]",
                 "expected 0, 4 or 128, found 127 at position 2"}));

INSTANTIATE_TEST_SUITE_P(
    Variants, ModelConfigBadValue,
    ::testing::Values(
        BadValue{"expert_dtype", "\"int8\"",
                 "expert_dtype: expected \"fp4\" or \"fp8\", found 'int8'"},
        BadValue{"scoring_func", "\"sigmoid\"", "expected \"sqrtsoftplus\", found 'sigmoid'"},
        BadValue{"hidden_act", "\"gelu\"", "hidden_act: expected \"silu\""},
        BadValue{"topk_method", "\"greedy\"", "topk_method: expected \"noaux_tc\""},
        BadValue{"norm_topk_prob", "false", "norm_topk_prob: expected true, found false"},
        BadValue{"attention_bias", "true", "attention_bias: expected false, found true"},
        BadValue{"tie_word_embeddings", "true", "tie_word_embeddings: expected false, found true"},
        BadValue{"type", "\"linear\"", "rope_scaling.type: expected \"yarn\", found 'linear'"},
        BadValue{"fmt", "\"e5m2\"", "quantization_config.fmt: expected \"e4m3\", found 'e5m2'"},
        BadValue{"weight_block_size", "[32, 32]",
                 "quantization_config.weight_block_size: expected [128, 128], found [32, 32]"},
        BadValue{"weight_block_size", "[128]", "expected [128, 128], found [128]"}));

TEST(ModelConfig, ReportsEverythingAtOnce) {
  std::string text = With(FlashText(), "hidden_size", "4100");
  text = With(std::move(text), "hc_mult", "3");
  text = With(std::move(text), "expert_dtype", "\"fp6\"");
  EXPECT_THAT(ErrorFrom(text),
              AllOf(HasSubstr("3 problems with config.json:\n  "), HasSubstr("\n  hc_mult: "),
                    HasSubstr("\n  hidden_size: "), HasSubstr("\n  expert_dtype: ")));
}

TEST(ModelConfig, ModelTypeComesFirst) {
  const Result<ModelConfig> sibling =
      ParseModelConfig(R"({"model_type": "deepseek_v41", "text_config": {}})", "config.json");
  ASSERT_FALSE(sibling);
  EXPECT_EQ(sibling.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(sibling.error().message,
              AllOf(HasSubstr("config.json: model_type deepseek_v41: DeepSeek-V4.1"),
                    HasSubstr("expected deepseek_v4")));
  EXPECT_EQ(ErrorFrom(R"({"model_type": "llama"})"),
            "config.json: model_type: expected \"deepseek_v4\", found 'llama'");
  EXPECT_EQ(ErrorFrom("{}"), "config.json: model_type: expected \"deepseek_v4\", found nothing");
  EXPECT_THAT(ErrorFrom(R"({"model_type": 4})"), HasSubstr("found 4"));
}

TEST(ModelConfig, NotAnObject) {
  EXPECT_THAT(ErrorFrom(""), HasSubstr("config.json: expected a JSON object, found invalid JSON"));
  EXPECT_THAT(ErrorFrom("{\"a\": 1,}"), HasSubstr("invalid JSON"));
  EXPECT_THAT(ErrorFrom("[1, 2]"), HasSubstr("found a list of 2"));
  EXPECT_THAT(ErrorFrom(std::string(3'000'000, '[')), HasSubstr("invalid JSON"));
  const std::string deep = std::string(1'000'000, '[') +
                           std::string(1'000'000, ']');  // valid, and freed without recursion
  EXPECT_THAT(ErrorFrom(deep),
              HasSubstr("invalid JSON (JSON, byte 200: expected at most 200 nested"));
  EXPECT_THAT(ErrorFrom(std::string(17 << 20, ' ')), HasSubstr("expected at most 16777216 bytes"));
}

TEST(ModelConfig, MissingFile) {
  const testing::TemporaryDirectory directory;
  const Result<ModelConfig> config = ReadModelConfig(directory.path() / "config.json");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("config.json: cannot open"));
}

}  // namespace
}  // namespace fathom::checkpoint
