// The formulas against the tables of docs/spec/flops_bytes.md, and against the tensors of
// checkpoints.
#include "measure/bench/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string ConfigText(std::string_view model) {
  return testing::ReadFile(
      testing::ProjectPath(fmt::format("tests/checkpoint/data/config.DeepSeek-V4-{}.json", model)));
}

ModelConfig Config(std::string_view model) {
  return ParseModelConfig(ConfigText(model), "config.json").value();
}

// Tables 1 and 2: MB per token and GFLOP per token, as they are printed.
struct Published {
  const char* model;
  struct {
    Component component;
    double mb;
    double gflop;
  } components[7];
  double routed_mb;
  double routed_gflop;
  double total_mb;
  double total_gflop;
};
constexpr Published kPublished[] = {{.model = "Flash",
                                     .components = {{Component::kAttention, 4599.34, 9.20},
                                                    {Component::kShared, 1082.20, 2.16},
                                                    {Component::kHead, 1059.06, 1.06},
                                                    {Component::kCompressor, 525.72, 0.52},
                                                    {Component::kIndexer, 275.35, 0.45},
                                                    {Component::kHyper, 135.54, 0.07},
                                                    {Component::kRouter, 90.22, 0.09}},
                                     .routed_mb = 3449.29,
                                     .routed_gflop = 12.99,
                                     .total_mb = 11217.58,
                                     .total_gflop = 26.5},
                                    {.model = "Pro",
                                     .components = {{Component::kAttention, 18294.57, 36.59},
                                                    {Component::kShared, 4029.92, 8.06},
                                                    {Component::kHead, 1853.36, 1.85},
                                                    {Component::kCompressor, 1344.57, 1.34},
                                                    {Component::kIndexer, 625.37, 1.00},
                                                    {Component::kHyper, 336.28, 0.17},
                                                    {Component::kRouter, 335.90, 0.34}},
                                     .routed_mb = 12844.60,
                                     .routed_gflop = 48.36,
                                     .total_mb = 39666.62,
                                     .total_gflop = 97.7}};

// Returns the weights of one token with its logits.
Costs SumByComponent(const ModelCosts& costs) {
  Costs sums = costs.outside();
  for (const LayerCosts& layer : costs.layers()) {
    for (std::size_t i = 0; i < kComponents; ++i) sums[i] += layer.dense[i];
  }
  return sums;
}

class CostsTest : public ::testing::TestWithParam<Published> {};

// Tolerances are half of the last printed digit.
TEST_P(CostsTest, WeightsOfOneTokenAreThePublishedTable) {
  const Published& published = GetParam();
  const ModelConfig config = Config(published.model);
  const ModelCosts costs(config, {});
  const Costs parts = SumByComponent(costs);
  for (const auto& [component, mb, gflop] : published.components) {
    const Cost& part = parts[static_cast<std::size_t>(component)];
    EXPECT_NEAR(part.bytes * 1e-6, mb, 0.0051) << static_cast<int>(component);
    EXPECT_NEAR(part.flops * 1e-9, gflop, 0.0051) << static_cast<int>(component);
  }
  const Cost routed = costs.RoutedPerToken();
  EXPECT_NEAR(routed.bytes * 1e-6, published.routed_mb, 0.0051);
  EXPECT_NEAR(routed.flops * 1e-9, published.routed_gflop, 0.0051);
  const auto n_experts = static_cast<double>(config.num_experts_per_tok * config.num_hidden_layers);
  EXPECT_DOUBLE_EQ(costs.RoutedBytes(n_experts), routed.bytes);
  const Cost dense = costs.Dense(1, 1);
  EXPECT_NEAR((dense.bytes + routed.bytes) * 1e-6, published.total_mb, 0.0051);
  EXPECT_NEAR((dense.flops + routed.flops) * 1e-9, published.total_gflop, 0.051);
}

TEST_P(CostsTest, MoreTokensShareTheWeights) {
  const ModelCosts costs(Config(GetParam().model), {});
  const Cost one = costs.Dense(1, 1);
  const Cost eight = costs.Dense(8, 8);
  EXPECT_LT(eight.bytes - one.bytes, 1e6);  // rows of the embedding and of the tables
  EXPECT_DOUBLE_EQ(eight.flops, 8 * one.flops);
  const Cost without_head = costs.Dense(8, 0);
  EXPECT_NEAR((eight.bytes - without_head.bytes) * 1e-6, GetParam().components[2].mb, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, CostsTest, ::testing::ValuesIn(kPublished),
                         [](const auto& published) { return published.param.model; });

// Tables 2 and 3 for the last of T tokens. 68.25 is printed as 68.3. Pro chooses 1024 rows, all
// there are at 4K: the tables count their scores (0.51 GFLOP, 2.09 MB), though they are not needed.
TEST(AttentionCosts, AreThePublishedTables) {
  const struct {
    const char* model;
    std::int64_t context;
    double gflop;
    double mb;
  } published[] = {{"Flash", 4096, 2.57, 11.3},
                   {"Flash", 32768, 5.65, 24.2},
                   {"Flash", 131072, 16.2, 68.25},
                   {"Flash", 1048576, 114.9, 479.5},
                   {"Pro", 4096, 10.9 - 0.51, 25.2 - 2.09},
                   {"Pro", 32768, 16.3, 43.8},
                   {"Pro", 131072, 34.7, 107.9},
                   {"Pro", 1048576, 207.0, 705.6}};
  for (const auto& row : published) {
    const ModelCosts costs(Config(row.model), {});
    const Cost cost = costs.Attention(row.context - 1);
    EXPECT_NEAR(cost.flops * 1e-9, row.gflop, 0.051) << row.model << " at " << row.context;
    EXPECT_NEAR(cost.bytes * 1e-6, row.mb, 0.051) << row.model << " at " << row.context;
  }
}

TEST(AttentionCosts, PrefillAverageIsThePublishedOne) {
  const ModelCosts costs(Config("Flash"), {});
  constexpr double kScore = 2 * 64 * 128 + 3 * 64;
  constexpr int kIndexLayers = 21;
  double flops = 0;
  for (std::int64_t position = 0; position < 4096; ++position) {
    const std::int64_t visible = (position + 1) / 4;
    flops += costs.Attention(position).flops;
    flops += visible <= 512 ? kIndexLayers * kScore * static_cast<double>(visible) : 0;  // as above
  }
  EXPECT_NEAR(flops / 4096 * 1e-9, 1.99, 0.0051);
}

std::vector<std::string> FindDifferences(const std::filesystem::path& directory) {
  const Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  if (!config || !checkpoint) {
    ADD_FAILURE() << (config ? checkpoint.error().message : config.error().message);
    return {};
  }
  return ModelCosts(*config, FindStoredFormats(*checkpoint)).Differences(*checkpoint);
}

TEST(CheckedCosts, EveryFormatAgreesWithItsTensors) {
  EXPECT_THAT(FindDifferences(testing::ProjectPath("models/fairy")), IsEmpty());
  for (const testing::NativeOptions& options :
       {testing::NativeOptions{},
        testing::NativeOptions{.experts = ExpertDType::kFp8, .scales = DType::kF32}}) {
    const testing::TemporaryDirectory directory;
    testing::WriteSparseCheckpoint(directory.path(), ConfigText("Flash"), options);
    EXPECT_THAT(FindDifferences(directory.path()), IsEmpty());
  }
}

TEST(CheckedCosts, DifferencesNameTheLayer) {
  const std::filesystem::path fairy = testing::ProjectPath("models/fairy");
  ModelConfig config = ReadModelConfig(fairy / "config.json").value();
  const Checkpoint checkpoint = Checkpoint::Open(fairy).value();
  config.compress_ratios[2] = 0;
  config.vocab_size += 1;  // also of the tables of the first two layers
  EXPECT_THAT(ModelCosts(config, FindStoredFormats(checkpoint)).Differences(checkpoint),
              ElementsAre(::testing::StartsWith("outside the layers: expected 4212244 bytes"),
                          ::testing::StartsWith("layer 0: "), ::testing::StartsWith("layer 1: "),
                          ::testing::StartsWith("layer 2: ")));
}

}  // namespace
}  // namespace fathom::measure::bench
