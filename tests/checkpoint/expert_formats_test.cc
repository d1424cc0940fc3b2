#include "checkpoint/expert_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ExpertFormats, CountsExpertsOfTheMainLayers) {
  const testing::TemporaryDirectory directory;
  const std::vector<testing::TensorSpec> tensors = {
      {"layers.0.ffn.experts.0.w1.weight", DType::kI8, {1}},
      {"layers.0.ffn.experts.10.w1.weight", DType::kI8, {1}},
      {"layers.12.ffn.experts.0.w1.weight", DType::kF8E4M3, {1}},
      {"layers.12.ffn.experts.1.w1.weight", DType::kBF16, {1}},
      {"layers.12.ffn.experts.1.w2.weight", DType::kI8, {1}},
      {"layers.x.ffn.experts.1.w1.weight", DType::kI8, {1}},
      {"layers.-1.ffn.experts.1.w1.weight", DType::kI8, {1}},
      {"layers.0.ffn.shared_experts.w1.weight", DType::kI8, {1}},
      {"mtp.0.ffn.experts.0.w1.weight", DType::kI8, {1}}};
  const Checkpoint checkpoint = testing::OpenZeros(directory.path(), tensors);
  const ExpertFormats formats = FindExpertFormats(checkpoint);
  EXPECT_EQ(formats.n_fp4, 2);
  EXPECT_EQ(formats.n_fp8, 1);
  EXPECT_EQ(formats.n_other, 1);
}

TEST(ExpertFormatWarning, OnlyWhereConfigAndTensorsDisagree) {
  const ExpertFormats fp4 = {.n_fp4 = 8};
  const ExpertFormats fp8 = {.n_fp8 = 8};
  ModelConfig config;
  EXPECT_EQ(ExpertFormatWarning(config, {}), std::nullopt);
  EXPECT_EQ(ExpertFormatWarning(config, fp4), std::nullopt);
  EXPECT_THAT(ExpertFormatWarning(config, fp8).value_or(""),
              AllOf(HasSubstr("expert_dtype is missing (which means \"fp4\")"),
                    HasSubstr("8 of 8 routed experts are stored as fp8")));
  config.expert_dtype = ExpertDType::kFp4;
  EXPECT_EQ(ExpertFormatWarning(config, fp4), std::nullopt);
  EXPECT_THAT(ExpertFormatWarning(config, fp8).value_or(""), HasSubstr("expert_dtype is \"fp4\""));
  EXPECT_THAT(ExpertFormatWarning(config, {.n_fp4 = 7, .n_fp8 = 1}).value_or(""),
              HasSubstr("1 of 8 routed experts"));
  config.expert_dtype = ExpertDType::kFp8;
  EXPECT_EQ(ExpertFormatWarning(config, fp8), std::nullopt);
  EXPECT_THAT(ExpertFormatWarning(config, fp4).value_or(""), HasSubstr("stored as fp4"));
}

TEST(ExpertFormats, EmbeddedModelAndOracles) {
  const auto oracle = testing::SharedData("oracle");
  if (!oracle) GTEST_SKIP() << testing::kNoSharedData;
  for (const auto& directory : {testing::ProjectPath("models/fairy"), *oracle / "flash-mini",
                                *oracle / "pro-mini", *oracle / "base-mini"}) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
    ASSERT_TRUE(config) << config.error().message;
    const ExpertFormats formats = FindExpertFormats(*checkpoint);
    EXPECT_EQ(formats.n_fp4 + formats.n_fp8, config->num_hidden_layers * config->n_routed_experts);
    EXPECT_EQ(ExpertFormatWarning(*config, formats), std::nullopt);
  }
}

}  // namespace
}  // namespace fathom::checkpoint
