#include "plan/cut.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "slice/shapes.h"
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
    const std::vector<Cut> whole = LegalCuts(FlashConfig(), n_devices);
    const std::vector<Cut> divided = LegalCuts(FlashConfig(), n_devices, true);
    ASSERT_EQ(divided.size(), whole.size());
    for (std::size_t i = 0; i < divided.size(); ++i) {
      const Cut& cut = divided[i];
      EXPECT_EQ(cut.decode_context_parallel, cut.n_tensor > 1 && cut.n_data == 1);
      EXPECT_EQ(Flags(cut), Flags(whole[i]) +
                                (cut.decode_context_parallel ? " --decode-context-parallel" : ""));
      if (!cut.is_estimate()) {
        EXPECT_TRUE(CheckCounts(FlashConfig(), cut.counts(), cut.replica_ranks()).has_value());
      }
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
