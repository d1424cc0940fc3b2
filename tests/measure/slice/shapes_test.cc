// The configurations, against the published files.
#include "measure/slice/shapes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/draft/dspark.h"
#include "model/draft/mtp.h"
#include "tests/measure/slice/tiny.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure {
namespace {

using nlohmann::json;

json Parse(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded());
  return parsed;
}

json Published(std::string_view model) {
  return Parse(testing::ReadFile(testing::ProjectPath(
      fmt::format("tests/checkpoint/data/config.DeepSeek-V4-{}.json", model))));
}

TEST(ShapesTest, UncutConfigurationsAreThePublishedOnes) {
  EXPECT_EQ(Parse(ConfigJson(FlashConfig())), Published("Flash"));
  EXPECT_EQ(Parse(ConfigJson(ProConfig())), Published("Pro"));
}

TEST(ShapesTest, ACutChangesWhatItNames) {
  json expected = Published("Pro");
  expected["compress_ratios"] = {4, 128, 0};
  expected["n_routed_experts"] = 16;
  expected["num_hash_layers"] = 0;
  expected["num_hidden_layers"] = 2;
  expected["vocab_size"] = 512;
  const ModelConfig cut = SliceConfig(
      ProConfig(), {.ratios = {4, 128}, .n_experts = 16, .vocab_size = 512, .draft = &kMtpDrafter});
  EXPECT_EQ(Parse(ConfigJson(cut)), expected);
}

TEST(ShapesTest, DSparkHasThePublishedNumbers) {
  const ModelConfig flash = SliceConfig(
      FlashConfig(),
      {.ratios = std::vector<int>(43, 4), .vocab_size = 129'280, .draft = &kDSparkDrafter});
  const json text = Parse(ConfigJson(flash));
  EXPECT_EQ(text["dspark_block_size"], 5);
  EXPECT_EQ(text["dspark_markov_rank"], 256);
  EXPECT_EQ(text["dspark_noise_token_id"], 128'799);
  EXPECT_EQ(text["dspark_target_layer_ids"], json({40, 41, 42}));
  EXPECT_EQ(text["num_nextn_predict_layers"], 1);
  EXPECT_EQ(text["compress_ratios"].size(), 46u);
  const ModelConfig pro =
      SliceConfig(ProConfig(), {.ratios = {4}, .vocab_size = 512, .draft = &kDSparkDrafter});
  EXPECT_EQ(pro.dspark->dspark_markov_rank, 512);
  EXPECT_EQ(pro.dspark->dspark_noise_token_id, 511);
  EXPECT_EQ(pro.dspark->dspark_target_layer_ids, std::vector<int>{0});
}

TEST(ShapesTest, WithoutDraftHeadNothingSpeaksOfIt) {
  const json cut =
      Parse(ConfigJson(SliceConfig(FlashConfig(), {.ratios = {0, 4}, .vocab_size = 512})));
  EXPECT_EQ(cut["num_nextn_predict_layers"], 0);
  EXPECT_EQ(cut["compress_ratios"], json({0, 4}));
  EXPECT_EQ(cut["n_routed_experts"], 256);
}

TEST(ShapesTest, TheTextIsAValidConfiguration) {
  for (const ModelConfig& config :
       {FlashConfig(), ProConfig(), testing::TinyConfig({.ratios = {0, 4}, .vocab_size = 300}),
        testing::TinyConfig({.ratios = {0, 4}, .vocab_size = 300, .draft = &kDSparkDrafter})}) {
    const Result<ModelConfig> parsed = ParseModelConfig(ConfigJson(config), "config.json");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->rms_norm_eps, config.rms_norm_eps);
    EXPECT_EQ(parsed->compress_ratios, config.compress_ratios);
    EXPECT_EQ(parsed->dspark.has_value(), config.dspark.has_value());
    if (parsed->dspark) {
      EXPECT_EQ(parsed->dspark->n_stages, 3);
    }
  }
}

}  // namespace
}  // namespace fathom::measure
