// The formulas of what travels, against what the ranks of a model have sent.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

#include "model/model_ranks.h"
#include "plan/model_sizes.h"
#include "plan/wire.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::plan {
namespace {

constexpr std::array<Token, 5> kTokens = {0, 17, 42, 99, 7};

// Bytes that all ranks together send for a step of kTokens and one row of logits.
std::int64_t BytesSent(const std::filesystem::path& directory, const ModelSizes& sizes,
                       const RankCounts& counts) {
  std::atomic<std::int64_t> n_bytes = 0;
  testing::RunRanks(counts.n_tensor * counts.n_data * counts.n_stages, [&](Communicator& all) {
    Result<std::unique_ptr<RankGroups>> groups =
        RankGroups::Join(all, sizes.config(), sizes.stage_weights(), counts);
    ASSERT_TRUE(groups.has_value()) << groups.error().message;
    testing::TestModel loaded(directory, {.ranks = &(*groups)->ranks()}, {.n_threads = 1});
    const std::int64_t before = all.traffic().n_bytes;
    Batch batch;
    batch.Add(0, 0, kTokens);
    ASSERT_TRUE(loaded.model().Forward(batch).has_value());
    ASSERT_TRUE(loaded.model().Logits(std::array<std::int32_t, 1>{4}).has_value());
    n_bytes += all.traffic().n_bytes - before;
  });
  return n_bytes;
}

TEST(WireTrafficTest, IsWhatTheRanksOfAModelSend) {
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const ModelSizes sizes = ModelSizes::Read(directory).value();
  for (const Cut& cut :
       {Cut{.n_tensor = 2}, Cut{.n_tensor = 2, .expert_parallel = true}, Cut{.n_stages = 2},
        Cut{.n_stages = 3}, Cut{.n_tensor = 2, .n_stages = 2, .expert_parallel = true},
        Cut{.n_data = 2, .expert_parallel = true},
        Cut{.n_stages = 2, .n_data = 2, .expert_parallel = true}}) {
    const WireBytes bytes = BytesPerToken(sizes.config(), cut, ExpertExchange::kUnfused);
    RankCounts counts = cut.counts();
    counts.expert_path = ExpertPath::kGather;
    const double expected =
        static_cast<double>(kTokens.size()) * (bytes.Total() - bytes.logits) + bytes.logits;
    EXPECT_EQ(static_cast<double>(BytesSent(directory, sizes, counts)), expected) << Flags(cut);
  }
}

}  // namespace
}  // namespace fathom::plan
