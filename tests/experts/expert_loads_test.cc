#include "experts/balance/expert_loads.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom::experts {
namespace {

using Counts = std::vector<std::int64_t>;

Counts Of(const ExpertLoads& loads, std::int64_t block) {
  const auto counts = loads.Of(block);
  return {counts.begin(), counts.end()};
}

TEST(ExpertLoadsTest, OnlyTheLastStepsCount) {
  ExpertLoads loads = *ExpertLoads::Create(2, 3, 2);
  loads.BeginStep();
  loads.Count(0, 1);
  loads.Count(0, 1);
  loads.Count(1, 2);
  EXPECT_EQ(Of(loads, 0), (Counts{0, 2, 0}));
  EXPECT_EQ(Of(loads, 1), (Counts{0, 0, 1}));
  loads.BeginStep();
  loads.Count(0, 0);
  EXPECT_EQ(Of(loads, 0), (Counts{1, 2, 0}));
  loads.BeginStep();  // the first is forgotten
  loads.Count(0, 1);
  EXPECT_EQ(Of(loads, 0), (Counts{1, 1, 0}));
  EXPECT_EQ(Of(loads, 1), (Counts{0, 0, 0}));
  loads.BeginStep();
  loads.BeginStep();
  EXPECT_EQ(Of(loads, 0), (Counts{0, 0, 0}));
}

}  // namespace
}  // namespace fathom::experts
