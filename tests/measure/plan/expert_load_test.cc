#include "measure/plan/expert_load.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "measure/slice/shapes.h"

namespace fathom::measure::plan {
namespace {

// Two layers of four experts; a token chooses two.
ModelConfig SmallConfig() {
  ModelConfig config;
  config.num_hidden_layers = 2;
  config.n_routed_experts = 4;
  config.num_experts_per_tok = 2;
  return config;
}

std::string ErrorFrom(const std::string& text) {
  const Result<ExpertLoad> load = ParseExpertTrace(text, "t.json", SmallConfig());
  return load ? "" : load.error().message;
}

TEST(ExpertLoadTest, ZipfOfZeroIsUniform) {
  for (const std::vector<double>& layer : ZipfLoad(FlashConfig(), 0)) {
    for (const double share : layer) EXPECT_DOUBLE_EQ(share, 6.0 / 256);
  }
}

TEST(ExpertLoadTest, ZipfAddsUpAndDiffersFromLayerToLayer) {
  const ModelConfig config = ProConfig();
  const ExpertLoad load = ZipfLoad(config, 1);
  ASSERT_EQ(std::ssize(load), config.num_hidden_layers);
  for (const std::vector<double>& layer : load) {
    EXPECT_NEAR(std::accumulate(layer.begin(), layer.end(), 0.0), 6, 1e-9);
    EXPECT_LE(*std::max_element(layer.begin(), layer.end()), 1);
  }
  EXPECT_NE(load[0], load[1]);
  std::vector<double> sorted = load[0];
  std::sort(sorted.rbegin(), sorted.rend());
  EXPECT_NEAR(sorted[1] / sorted[3], 2, 1e-9);  // the second and the fourth
  EXPECT_EQ(load, ZipfLoad(config, 1));
}

TEST(ExpertLoadTest, LoadsAreSharesOfTheTokens) {
  const ExpertLoad expected = {{0.5, 0.5, 0.25, 0.75}, {1, 1.0 / 3, 1.0 / 3, 1.0 / 3}};
  const Result<ExpertLoad> load =
      ParseExpertTrace(R"({"loads": [[2, 2, 1, 3], [900, 1, 1, 1]]})", "t.json", SmallConfig());
  ASSERT_TRUE(load.has_value()) << load.error().message;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t e = 0; e < 4; ++e) {
      EXPECT_DOUBLE_EQ((*load)[layer][e], expected[layer][e]) << layer << " " << e;
    }
  }
}

TEST(ExpertLoadTest, OneListIsForAllLayersAndNothingIsEven) {
  const Result<ExpertLoad> load =
      ParseExpertTrace(R"({"loads": [[0, 0, 5, 0]]})", "t.json", SmallConfig());
  ASSERT_TRUE(load.has_value()) << load.error().message;
  EXPECT_EQ((*load)[0], (*load)[1]);
  EXPECT_DOUBLE_EQ((*load)[0][2], 1);
  EXPECT_DOUBLE_EQ((*load)[0][0], 1.0 / 3);
}

TEST(ExpertLoadTest, LinesAreCounted) {
  const Result<ExpertLoad> load = ParseExpertTrace(
      "{\"layer\": 0, \"experts\": [0, 1]}\n\n{\"layer\": 0, \"experts\": [0, 2]}\n"
      "{\"layer\": 1, \"experts\": [3, 2]}",
      "t.json", SmallConfig());
  ASSERT_TRUE(load.has_value()) << load.error().message;
  EXPECT_EQ((*load)[0], (std::vector<double>{1, 0.5, 0.5, 0}));
  EXPECT_EQ((*load)[1], (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(ErrorFrom("{\"layer\": 1, \"experts\": [3, 2]}"), "");  // a single line too
}

TEST(ExpertLoadTest, ErrorsNameFileLineAndField) {
  EXPECT_EQ(ErrorFrom(" \n"), "t.json: expected loads or chosen experts, found nothing");
  EXPECT_EQ(ErrorFrom("{}"), "t.json: loads: expected a value, found nothing");
  EXPECT_EQ(ErrorFrom(R"({"loads": 5})"),
            "t.json: loads: expected 2 lists, one for each layer, found a number");
  EXPECT_EQ(ErrorFrom(R"({"loads": [[1], [1], [1]]})"),
            "t.json: loads: expected 2 lists, one for each layer, found 3 lists");
  EXPECT_EQ(ErrorFrom(R"({"loads": [[1, 2, 3, 4], [1, 2, 3]]})"),
            "t.json: loads[1]: expected 4 numbers, one for each expert, found 3");
  EXPECT_EQ(ErrorFrom(R"({"loads": [[1, 2, 3, -4]]})"),
            "t.json: loads[0][3]: expected a number from 0 to 1000000000000000, found -4");
  EXPECT_EQ(ErrorFrom("{\"layer\": 0, \"experts\": [0]}\n{\"layer\": 2, \"experts\": [0]}"),
            "t.json: line 2: layer: expected an integer from 0 to 1, found 2");
  EXPECT_EQ(ErrorFrom("{\"layer\": 0, \"experts\": [0]}\n{\"layer\": 1, \"experts\": [4]}"),
            "t.json: line 2: experts[0]: expected an integer from 0 to 3, found 4");
  EXPECT_EQ(ErrorFrom("{\"layer\": 0, \"experts\": [0]}\n7").substr(0, 16), "t.json: line 2: ");
}

}  // namespace
}  // namespace fathom::measure::plan
