#include "experts/balance/expert_placement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::experts {
namespace {

constexpr ExpertCounts kCounts = {.n_logical = 4, .n_physical = 6, .n_ranks = 3};

ReplicaMap MakeMap(std::vector<std::int32_t> physical_to_logical, std::int64_t block = 0) {
  return {block, kCounts, MakePlacement(physical_to_logical, kCounts.n_logical)};
}

TEST(ReplicaMapTest, PhysicalExpertsAreCutEvenly) {
  const ReplicaMap map = MakeMap({0, 1, 2, 3, 0, 1});
  EXPECT_EQ(map.ExpertsOn(0), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(map.ExpertsOn(1), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(map.ExpertsOn(2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(map.FindRank(17, 2), 1);
  EXPECT_FALSE(map.IsOn(1, 0));
  const ReplicaMap twice = MakeMap({0, 0, 1, 2, 3, 3});  // on one rank
  EXPECT_EQ(twice.ExpertsOn(0), (std::vector<std::int32_t>{0}));
}

TEST(ReplicaMapTest, PositionsAreSpreadEvenlyAndDifferentlyInEveryBlock) {
  const ReplicaMap first = MakeMap({0, 1, 2, 3, 0, 1}, 0);
  const ReplicaMap second = MakeMap({0, 1, 2, 3, 0, 1}, 1);
  constexpr int kPositions = 10000;
  int n_on_first = 0, n_different = 0;
  for (std::int32_t position = 0; position < kPositions; ++position) {
    const int rank = first.FindRank(position, 0);
    EXPECT_TRUE(rank == 0 || rank == 2);
    EXPECT_EQ(rank, first.FindRank(position, 0));
    n_on_first += rank == 0 ? 1 : 0;
    n_different += rank != second.FindRank(position, 0) ? 1 : 0;
  }
  // Half of them; the standard deviation of 10,000 coins is 50.
  EXPECT_NEAR(n_on_first, kPositions / 2, 250);
  EXPECT_NEAR(n_different, kPositions / 2, 250);
}

std::string Refusal(const BlockPlacements& placements) {
  const Status status = CheckPlacements(placements, 2, kCounts);
  return status ? "" : status.error().message;
}

TEST(ReplicaMapTest, APlacementOfSomethingElseIsRefused) {
  const std::vector<std::int32_t> good = {0, 1, 2, 3, 3, 3};
  EXPECT_EQ(Refusal({good, good}), "");
  EXPECT_EQ(Refusal({good}), "placement: expected 2 blocks, found 1");
  EXPECT_EQ(Refusal({good, {0, 1, 2, 3}}), "placement.1: expected 6 physical experts, found 4");
  EXPECT_EQ(Refusal({good, {0, 1, 2, 3, 4, 0}}), "placement.1: expected experts 0 to 3, found 4");
  EXPECT_EQ(Refusal({{0, 1, 1, 3, 3, 3}, good}),
            "placement.0: expected a replica of every expert, found none of 2");
}

}  // namespace
}  // namespace fathom::experts
