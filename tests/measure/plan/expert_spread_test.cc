#include "measure/plan/expert_spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "measure/plan/expert_load.h"
#include "measure/slice/shapes.h"

namespace fathom::measure::plan {
namespace {

TEST(ExpertSpreadTest, ExpectedMaximumOfNormalNumbers) {
  EXPECT_EQ(ExpectedMaximum(1), 0);
  EXPECT_NEAR(ExpectedMaximum(2), 1 / std::sqrt(std::acos(-1.0)), 1e-4);  // 1 / sqrt(pi)
  EXPECT_NEAR(ExpectedMaximum(8), 1.4236, 1e-3);
  EXPECT_NEAR(ExpectedMaximum(32), 2.0697, 1e-3);
}

// docs/spec/flops_bytes.md 1: Flash, 8 tokens 44.2 experts, 32 tokens 136.
TEST(ExpertSpreadTest, DifferentExpertsOfABatch) {
  const std::vector<double> shares = ZipfLoad(FlashConfig(), 0)[0];
  const ExpertPlacement placement = PlaceExperts(shares, {}, 1);
  EXPECT_NEAR(SpreadWork(shares, placement, 1, 1)[0].n_experts, 6, 1e-9);
  EXPECT_NEAR(SpreadWork(shares, placement, 1, 8)[0].n_experts, 44.2, 0.051);
  EXPECT_NEAR(SpreadWork(shares, placement, 1, 32)[0].n_experts, 136, 0.51);
  EXPECT_NEAR(SpreadWork(shares, placement, 1, 32)[0].n_rows, 192, 1e-9);
}

TEST(ExpertSpreadTest, RanksHaveWhatTheirExpertsHave) {
  const std::vector<double> shares = {1, 0.5, 0.25, 0.25};
  const std::vector<PlannedWork> ranks = SpreadWork(shares, PlaceExperts(shares, {}, 2), 2, 2);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_DOUBLE_EQ(ranks[0].n_experts, 1 + 0.75);
  EXPECT_DOUBLE_EQ(ranks[1].n_experts, 2 * (1 - 0.75 * 0.75));
  EXPECT_DOUBLE_EQ(ranks[0].n_rows, 3);
  EXPECT_DOUBLE_EQ(ranks[1].n_rows, 1);
  EXPECT_DOUBLE_EQ(ranks[0].n_experts_deviation, std::sqrt(0.75 * 0.25));
  EXPECT_DOUBLE_EQ(ranks[0].ExpertsAbove(2), 2);  // it has no more than two
  EXPECT_DOUBLE_EQ(ComputeImbalance(shares, PlaceExperts(shares, {}, 2), 2), 1.5);
}

// Tokens that choose 6 different experts of 256 at random, on 8 ranks.
TEST(ExpertSpreadTest, TheBusiestRankIsAboutThatOfRandomTokens) {
  const std::vector<double> shares = ZipfLoad(FlashConfig(), 0)[0];
  std::mt19937_64 random(1);
  for (const int n_tokens : {1, 4, 16, 64}) {
    double sum = 0;
    constexpr int kTrials = 400;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::set<std::uint64_t> chosen;
      for (int token = 0; token < n_tokens; ++token) {
        std::set<std::uint64_t> mine;
        while (mine.size() < 6) mine.insert(random() % 256);
        chosen.insert(mine.begin(), mine.end());
      }
      std::size_t counts[8] = {};
      for (const std::uint64_t expert : chosen) ++counts[expert / 32];
      sum += static_cast<double>(*std::max_element(counts, counts + 8));
    }
    const double found = sum / kTrials;
    const double expected =
        SpreadWork(shares, PlaceExperts(shares, {}, 8), 8, n_tokens)[0].ExpertsAbove(
            ExpectedMaximum(8));
    EXPECT_NEAR(expected / found, 1, 0.12) << n_tokens << " tokens: " << found;
  }
}

// 25 % of redundancy even out a skewed load.
TEST(ExpertSpreadTest, BalancingEvensOut) {
  for (const double exponent : {0.5, 0.8, 1.0}) {
    const std::vector<double> shares = ZipfLoad(FlashConfig(), exponent)[0];
    const double plain = ComputeImbalance(shares, PlaceExperts(shares, {}, 8), 8);
    const double moved = ComputeImbalance(shares, PlaceExperts(shares, 0, 8), 8);
    const double balanced = ComputeImbalance(shares, PlaceExperts(shares, 64, 8), 8);
    EXPECT_GE(plain, moved);
    EXPECT_LE(balanced, 1.1);
    EXPECT_LE(balanced, plain);
  }
}

}  // namespace
}  // namespace fathom::measure::plan
