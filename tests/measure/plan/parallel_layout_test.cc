#include "measure/plan/parallel_layout.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <tuple>

#include "measure/slice/shapes.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::plan {
namespace {

TEST(ParallelLayoutTest, FairyOnTwoDevices) {
  const ModelConfig config =
      ReadModelConfig(testing::ProjectPath("models/fairy/config.json")).value();
  std::set<std::string> flags;
  for (const ParallelLayout& layout : LegalLayouts(config, 2)) {
    EXPECT_EQ(layout.replica_ranks() * layout.n_replicas, 2);
    flags.insert(Flags(layout));
  }
  EXPECT_EQ(flags, (std::set<std::string>{"--tp 1 --pp 1 --ep 1", "--tp 2 --pp 1 --ep 1",
                                          "--tp 2 --pp 1 --ep 2", "--tp 1 --pp 2 --ep 1",
                                          "--tp 1 --pp 1 --ep 2 --dp-attention"}));
}

TEST(ParallelLayoutTest, TensorRanksDivideTheirRowsWhereTheyCan) {
  for (const int n_devices : {2, 3, 8}) {
    for (const ParallelLayout& layout : LegalLayouts(FlashConfig(), n_devices)) {
      EXPECT_FALSE(layout.decode_context_parallel);
      const std::optional<ParallelLayout> divided = WithDividedRows(FlashConfig(), layout);
      ASSERT_EQ(divided.has_value(), layout.n_tensor > 1 && layout.n_data == 1);
      if (!divided) continue;
      EXPECT_EQ(Flags(*divided), Flags(layout) + " --decode-context-parallel");
      EXPECT_TRUE(
          CheckCounts(FlashConfig(), divided->counts(), divided->replica_ranks()).has_value());
      EXPECT_FALSE(WithDividedRows(FlashConfig(), *divided));
    }
  }
}

// A listed layout that is no estimate is accepted by the program; without data ranks the list is
// complete.
TEST(ParallelLayoutTest, LegalIsWhatTheProgramTakes) {
  for (const ModelConfig& config : {FlashConfig(), ProConfig()}) {
    for (const int n_devices : {1, 3, 8, 32}) {
      std::set<std::tuple<int, int, bool>> listed;
      for (const ParallelLayout& layout : LegalLayouts(config, n_devices)) {
        EXPECT_EQ(layout.replica_ranks() * layout.n_replicas, n_devices);
        EXPECT_EQ(config.n_routed_experts % layout.n_expert(), 0);
        if (layout.is_estimate()) continue;
        EXPECT_TRUE(CheckCounts(config, layout.counts(), layout.replica_ranks()).has_value());
        if (layout.n_data > 1) continue;
        EXPECT_TRUE(
            listed.insert({layout.n_tensor, layout.n_stages, layout.counts().expert_parallel})
                .second);
      }
      for (int n_tensor = 1; n_tensor <= n_devices; ++n_tensor) {
        for (int n_stages = 1; n_stages * n_tensor <= n_devices; ++n_stages) {
          for (const bool experts : {false, true}) {
            const bool is_legal =
                n_devices % (n_tensor * n_stages) == 0 && !(experts && n_tensor == 1) &&
                CheckCounts(config, {n_tensor, n_stages, experts}, n_tensor * n_stages).has_value();
            EXPECT_EQ(is_legal, listed.contains({n_tensor, n_stages, experts}))
                << n_tensor << " " << n_stages << " " << experts << " of " << n_devices;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom::measure::plan
