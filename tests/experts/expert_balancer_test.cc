#include "experts/balance/expert_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/shared_data.h"

namespace fathom::experts {
namespace {

using Json = nlohmann::json;

ExpertCounts ParseCounts(const Json& test_case) {
  return {.n_logical = std::ssize(test_case["weight"][0]),
          .n_physical = test_case["physical"],
          .n_ranks = test_case["ranks"],
          .n_groups = test_case["groups"],
          .n_nodes = test_case["nodes"]};
}

// Replicas of an expert, without what fills the row up.
std::vector<std::int32_t> Replicas(const Json& row) {
  std::vector<std::int32_t> replicas = row;
  std::erase(replicas, -1);
  return replicas;
}

TEST(ExpertBalancerTest, PlacesLikeThePublishedCode) {
  const auto path = testing::SharedData("data/eplb/rebalance_cases.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  std::ifstream file(*path);
  const Json cases = Json::parse(file);
  ASSERT_EQ(cases.size(), 19u);
  for (const Json& test_case : cases) {
    const ExpertCounts counts = ParseCounts(test_case);
    ASSERT_TRUE(CheckCounts(counts).has_value());
    for (std::size_t layer = 0; layer < test_case["weight"].size(); ++layer) {
      const std::vector<float> load = test_case["weight"][layer];
      const ExpertPlacement placement = BalanceExperts(load, counts);
      EXPECT_EQ(placement.physical_to_logical,
                test_case["physical_to_logical"][layer].get<std::vector<std::int32_t>>());
      for (std::size_t e = 0; e < load.size(); ++e) {
        const std::vector<std::int32_t>& replicas = placement.logical_to_physical[e];
        EXPECT_EQ(replicas, Replicas(test_case["logical_to_physical"][layer][e]));
        EXPECT_EQ(std::ssize(replicas), test_case["replica_count"][layer][e].get<int>());
      }
      // The example of the published README comes without it.
      if (test_case.contains("rank_imbalance")) {
        EXPECT_NEAR(RankImbalance(load, placement, counts.n_ranks),
                    test_case["rank_imbalance"][layer].get<double>(), 2e-6);
      }
    }
  }
}

TEST(ExpertBalancerTest, BeginsWithExpertsInTheirOrder) {
  const ExpertPlacement placement = InitialPlacement({.n_logical = 3, .n_physical = 5});
  EXPECT_EQ(placement.physical_to_logical, (std::vector<std::int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(placement.logical_to_physical[1], (std::vector<std::int32_t>{1, 4}));
  EXPECT_EQ(placement.logical_to_physical[2], (std::vector<std::int32_t>{2}));
}

TEST(ExpertBalancerTest, AQuarterMoreExpertsEvensOutASkewedLoad) {
  // Zipf: the expert that is the r-th in popularity has the load 1 / r. Neighbours are alike
  // popular, so that the ranks of the first experts have most to do.
  for (const std::int64_t n_ranks : {2, 4, 8}) {
    std::vector<float> load;
    for (int i = 1; i <= 64; ++i) {
      load.push_back(1.0f / static_cast<float>(i));
    }
    const ExpertCounts counts = {.n_logical = 64, .n_physical = 80, .n_ranks = n_ranks};
    const double before = RankImbalance(load, InitialPlacement(counts), n_ranks);
    const double after = RankImbalance(load, BalanceExperts(load, counts), n_ranks);
    EXPECT_GT(before, after);
    EXPECT_LE(after, 1.1);
  }
}

TEST(ExpertBalancerTest, HoldsEveryExpertWhateverTheLoad) {
  std::mt19937 random(1);
  for (int run = 0; run < 200; ++run) {
    const std::int64_t n_ranks = 1 << random() % 4;
    const std::int64_t per_rank = 1 + random() % 6;
    const std::int64_t n_physical = n_ranks * per_rank;
    const std::int64_t n_logical = 1 + static_cast<std::int64_t>(random() % 100) % n_physical;
    std::vector<float> load;
    for (std::int64_t e = 0; e < n_logical; ++e) {
      load.push_back(random() % 3 == 0 ? 0 : static_cast<float>(random() % 1000));
    }
    const ExpertCounts counts = {
        .n_logical = n_logical, .n_physical = n_physical, .n_ranks = n_ranks};
    ASSERT_TRUE(CheckCounts(counts).has_value());
    const ExpertPlacement placement = BalanceExperts(load, counts);
    ASSERT_EQ(std::ssize(placement.physical_to_logical), n_physical);
    const ExpertPlacement again = MakePlacement(placement.physical_to_logical, n_logical);
    for (std::size_t e = 0; e < load.size(); ++e) {
      std::vector<std::int32_t> replicas = placement.logical_to_physical[e];
      ASSERT_FALSE(replicas.empty());
      std::sort(replicas.begin(), replicas.end());
      EXPECT_EQ(replicas, again.logical_to_physical[e]);
    }
  }
}

TEST(ExpertBalancerTest, RefusesCountsThatDoNotDivide) {
  const auto message = [](const ExpertCounts& counts) {
    const Status status = CheckCounts(counts);
    return status ? "" : status.error().message;
  };
  EXPECT_NE(message({.n_logical = 8, .n_physical = 9, .n_ranks = 2}).find("--redundant-experts"),
            std::string::npos);
  EXPECT_NE(message({.n_logical = 8, .n_physical = 4, .n_ranks = 2}).find("found -4"),
            std::string::npos);
  EXPECT_NE(message({.n_logical = 8, .n_physical = 8, .n_ranks = 4, .n_nodes = 3}).find("node"),
            std::string::npos);
  EXPECT_EQ(RankImbalance(std::vector<float>(2), InitialPlacement({2, 2, 2}), 2), 1.0);
}

}  // namespace
}  // namespace fathom::experts
