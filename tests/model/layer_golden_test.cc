// Every layer alone, fed with the streams of the official code (oracle/README.md). The sharpest
// test there is of the whole forward pass: one wrong rounding shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model/golden.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

struct LayerMatch {
  double identical = 0.0;  // share of the positions whose four streams are equal to the bit
  double worst = 0.0;      // largest relative L2 error of a position
};

LayerMatch Compare(Matrix<const Bf16> expected, Matrix<const Bf16> actual) {
  LayerMatch match;
  for (std::int64_t r = 0; r < expected.rows; ++r) {
    double error = 0.0;
    double norm = 0.0;
    for (std::int64_t i = 0; i < expected.cols; ++i) {
      const double e = ToFloat(expected.Row(r)[i]);
      const double difference = ToFloat(actual.Row(r)[i]) - e;
      error += difference * difference;
      norm += e * e;
    }
    match.identical += error == 0.0 ? 1.0 : 0.0;
    match.worst = std::max(match.worst, std::sqrt(error / norm));
  }
  match.identical /= static_cast<double>(expected.rows);
  return match;
}

class LayerGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(LayerGolden, MatchesTheOfficialCode) {
  const auto directory = testing::SharedData(std::string("oracle/") + GetParam());
  if (!directory) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const testing::Golden golden = testing::ReadGolden(*directory, "golden");
  const auto n = static_cast<std::int64_t>(golden.tokens.size());
  testing::TestModel loaded(*directory, {.max_context = n, .max_batch_tokens = n});
  Model& model = loaded.model();
  Batch batch;
  batch.Add(0, 0, golden.tokens);
  int good_layers = 0;
  for (std::int64_t layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    const Matrix<const Bf16> input = golden.Streams(layer);
    std::vector<Bf16> streams(input.data, input.data + input.rows * input.cols);
    const Matrix<Bf16> output = {streams.data(), input.rows, input.cols};
    const Status ran = model.RunLayer(layer, batch, output);
    ASSERT_TRUE(ran) << ran.error().message;
    const LayerMatch match = Compare(golden.Streams(layer + 1), output);
    const std::string which = std::string(GetParam()) + " layer " + std::to_string(layer);
    std::printf("%s: %.1f %% of positions identical, worst relative error %.4f\n", which.c_str(),
                100 * match.identical, match.worst);
    EXPECT_GE(match.identical, 0.5) << which;
    EXPECT_LE(match.worst, 0.05) << which;
    good_layers += match.identical >= 0.9 ? 1 : 0;
  }
  EXPECT_GE(good_layers, model.config().num_hidden_layers - 1);
}

INSTANTIATE_TEST_SUITE_P(Oracle, LayerGolden,
                         ::testing::Values("flash-mini", "pro-mini", "base-mini"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fathom::model
