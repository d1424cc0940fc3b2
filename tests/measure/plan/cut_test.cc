#include "measure/plan/cut.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <tuple>

#include "measure/slice/shapes.h"
#include "tests/testing/shared_data.h"

namespace fathom::plan {
namespace {

TEST(CutTest, FairyOnTwoDevices) {
  const ModelConfig config =
      ReadModelConfig(testing::ProjectPath("models/fairy/config.json")).value();
  std::set<std::string> flags;
  for (const Cut& cut : LegalCuts(config, 2)) {
    EXPECT_EQ(cut.replica_ranks() * cut.n_replicas, 2);
    flags.insert(Flags(cut));
  }
  EXPECT_EQ(flags, (std::set<std::string>{"--tp 1 --pp 1 --ep 1", "--tp 2 --pp 1 --ep 1",
                                          "--tp 2 --pp 1 --ep 2", "--tp 1 --pp 2 --ep 1",
                                          "--tp 1 --pp 1 --ep 2 --dp-attention"}));
}

TEST(CutTest, TensorRanksDivideTheirRowsWhereTheyCan) {
  for (const int n_devices : {2, 3, 8}) {
    for (const Cut& cut : LegalCuts(FlashConfig(), n_devices)) {
      EXPECT_FALSE(cut.decode_context_parallel);
      const std::optional<Cut> divided = WithDividedRows(FlashConfig(), cut);
      ASSERT_EQ(divided.has_value(), cut.n_tensor > 1 && cut.n_data == 1);
      if (!divided) continue;
      EXPECT_EQ(Flags(*divided), Flags(cut) + " --decode-context-parallel");
      EXPECT_TRUE(
          CheckCounts(FlashConfig(), divided->counts(), divided->replica_ranks()).has_value());
      EXPECT_FALSE(WithDividedRows(FlashConfig(), *divided));
    }
  }
}

// What is listed and no estimate is what the program takes; without data ranks it is all of that.
TEST(CutTest, LegalIsWhatTheProgramTakes) {
  for (const ModelConfig& config : {FlashConfig(), ProConfig()}) {
    for (const int n_devices : {1, 3, 8, 32}) {
      std::set<std::tuple<int, int, bool>> listed;
      for (const Cut& cut : LegalCuts(config, n_devices)) {
        EXPECT_EQ(cut.replica_ranks() * cut.n_replicas, n_devices);
        EXPECT_EQ(config.n_routed_experts % cut.n_expert(), 0);
        if (cut.is_estimate()) continue;
        EXPECT_TRUE(CheckCounts(config, cut.counts(), cut.replica_ranks()).has_value());
        if (cut.n_data > 1) continue;
        EXPECT_TRUE(
            listed.insert({cut.n_tensor, cut.n_stages, cut.counts().expert_parallel}).second);
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
}  // namespace fathom::plan
