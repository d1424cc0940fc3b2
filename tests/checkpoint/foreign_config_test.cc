// Configurations that other programs have written.
#include "checkpoint/foreign_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/model_config.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class ForeignConfigTest : public ::testing::Test {
 protected:
  std::string Error() const {
    const Result<ModelConfig> config = ParseModelConfig(json_.dump(), "config.json");
    return config ? "no error" : config.error().message;
  }
  // Adds the fields that transformers 5 writes for the embedded model.
  void AddTransformersFields() {
    json_["layer_types"] = {"sliding_attention",
                            "compressed_sparse_attention",
                            "heavily_compressed_attention",
                            "compressed_sparse_attention",
                            "heavily_compressed_attention",
                            "compressed_sparse_attention"};
    json_["compress_rates"] = {{"compressed_sparse_attention", 4},
                               {"heavily_compressed_attention", 128}};
    json_["mlp_layer_types"] = {"hash_moe", "hash_moe", "moe", "moe", "moe", "moe"};
    json_["rope_parameters"] = {
        {"main", {{"rope_theta", 10000.0}, {"rope_type", "default"}}},
        {"compress", {{"rope_theta", 160000.0}, {"rope_type", "yarn"}, {"factor", 16.0}}}};
    json_["partial_rotary_factor"] = 0.5;
  }

  Json json_ = Json::parse(testing::ReadFile(testing::ProjectPath("models/fairy/config.json")));
};

TEST_F(ForeignConfigTest, AListOfEndTokens) {
  json_["eos_token_id"] = {1, 17};
  const Result<ModelConfig> config = ParseModelConfig(json_.dump(), "config.json");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->eos_token_id, 1);
  EXPECT_THAT(config->other_eos_token_ids, ::testing::ElementsAre(17));
  json_["eos_token_id"] = {1, 4096};
  EXPECT_THAT(Error(),
              HasSubstr("eos_token_id: expected a token below vocab_size 4096, found 4096"));
  json_["eos_token_id"] = Json::array();
  EXPECT_THAT(Error(), HasSubstr("eos_token_id: expected a list of 1 to 64 integers"));
}

TEST_F(ForeignConfigTest, SavedByTransformers) {
  AddTransformersFields();
  EXPECT_EQ(Error(), "no error") << "both forms agree";
  for (const char* field : {"compress_ratios", "num_hash_layers", "rope_scaling", "rope_theta",
                            "compress_rope_theta", "qk_rope_head_dim"}) {
    json_.erase(field);
    EXPECT_THAT(Error(), HasSubstr("written by transformers' save_pretrained; take the published "
                                   "config.json"))
        << field;
    EXPECT_EQ(Error().find('\n'), std::string::npos) << "one sentence";
  }
}

TEST_F(ForeignConfigTest, FormsThatContradictEachOther) {
  AddTransformersFields();
  const Json agreeing = json_;
  json_["layer_types"][1] = "heavily_compressed_attention";
  EXPECT_THAT(Error(), HasSubstr("layer_types: expected the kind of ratio 4 at position 1, by "
                                 "compress_ratios, found \"heavily_compressed_attention\""));
  json_ = agreeing;
  json_["mlp_layer_types"][2] = "hash_moe";
  EXPECT_THAT(Error(), HasSubstr("mlp_layer_types: expected 2 times \"hash_moe\", by "
                                 "num_hash_layers, found 3"));
  json_ = agreeing;
  json_["compress_rates"]["compressed_sparse_attention"] = 8;
  EXPECT_THAT(Error(), HasSubstr("compress_rates.compressed_sparse_attention: expected 4"));
  json_ = agreeing;
  json_["rope_parameters"]["main"]["rope_theta"] = 5e5;
  EXPECT_THAT(Error(), HasSubstr("rope_parameters.main.rope_theta: expected 10000, by rope_theta"));
  json_ = agreeing;
  json_["rope_parameters"]["compress"]["rope_theta"] = 1e4;
  EXPECT_THAT(Error(), HasSubstr("expected 160000, by compress_rope_theta"));
  json_ = agreeing;
  json_["partial_rotary_factor"] = 0.125;
  EXPECT_THAT(Error(), HasSubstr("partial_rotary_factor: expected 0.5, by qk_rope_head_dim"));
}

TEST_F(ForeignConfigTest, QuantizedByOthers) {
  json_["quantization_config"] = {{"quant_method", "compressed-tensors"}};
  EXPECT_THAT(Error(), HasSubstr("quantization_config.quant_method: expected \"fp8\", found "
                                 "'compressed-tensors': the weights are quantized by another"));
  json_["quantization_config"] = {{"quant_method", "fp8"}, {"moe_quant_algo", "NVFP4"}};
  EXPECT_THAT(Error(), HasSubstr("the experts are quantized by ModelOpt (NVFP4)"));
  json_["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  EXPECT_THAT(Error(), HasSubstr("take the published checkpoint"));
  json_.erase("quantization_config");
  EXPECT_EQ(Error(), "no error") << "the types of the tensors say what the weights are";
}

}  // namespace
}  // namespace fathom::checkpoint
