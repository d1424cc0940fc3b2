// End to end against the official code: KL divergence of the logits, compared with the divergence
// of the official code from itself under another order of sums (the noise floor beside each
// golden).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/golden.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

struct Case {
  const char* directory;  // in the golden data
  const char* golden;
  std::int64_t chunk;
};

class ModelGolden : public ::testing::TestWithParam<Case> {};

void ExpectWithinFloor(const testing::Divergence& kl, const testing::Divergence& floor,
                       const std::string& what) {
  std::printf("%s: KL median %.5f (%.2f of the floor), mean %.5f (%.2f)\n", what.c_str(), kl.median,
              kl.median / floor.median, kl.mean, kl.mean / floor.mean);
  EXPECT_LE(kl.median, 2 * floor.median) << what;
  EXPECT_LE(kl.mean, 2 * floor.mean) << what;
}

TEST_P(ModelGolden, LogitsWithinTwiceTheNoiseFloor) {
  const auto directory = testing::SharedData(GetParam().directory);
  if (!directory) {
    GTEST_SKIP() << testing::kNoSharedData;
  }
  const testing::Golden golden = testing::ReadGolden(*directory, GetParam().golden);
  const auto n = static_cast<std::int64_t>(golden.tokens.size());
  testing::TestModel loaded(
      *directory, {.max_context = n, .max_batch_tokens = GetParam().chunk, .with_draft = true});
  const testing::ModelLogits actual =
      testing::RunModel(loaded.model(), golden.tokens, golden.positions, GetParam().chunk);
  ExpectWithinFloor(testing::KlDivergence(golden.Logits(), actual.logits), golden.logits_floor,
                    "logits");
  ExpectWithinFloor(testing::KlDivergence(golden.MtpLogits(), actual.mtp_logits), golden.mtp_floor,
                    "mtp_logits");
}

INSTANTIATE_TEST_SUITE_P(All, ModelGolden,
                         ::testing::Values(Case{"oracle/flash-mini", "golden", 300},
                                           Case{"oracle/pro-mini", "golden", 420},
                                           Case{"oracle/base-mini", "golden", 300},
                                           Case{"models/fairy", "golden", 512},
                                           Case{"models/fairy", "golden_long", 512}),
                         [](const auto& test) {
                           std::string name =
                               std::string(test.param.directory) + "_" + test.param.golden;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '-' || c == '/'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace fathom::model
