// The formulas of the traffic, against the bytes that the ranks of a model have sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "distributed/model_ranks.h"
#include "experts/expert_parts.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/wire.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::plan {
namespace {

constexpr std::array<Token, 5> kTokens = {0, 17, 42, 99, 7};

// Bytes that all ranks together send for a step of kTokens behind n_before others and one row of
// logits.
std::int64_t BytesSent(const std::filesystem::path& directory, const ModelSizes& sizes,
                       const RankCounts& counts, std::int32_t n_before = 0) {
  std::atomic<std::int64_t> n_bytes = 0;
  testing::RunRanks(counts.n_tensor * counts.n_data * counts.n_stages, [&](Communicator& all) {
    Result<std::unique_ptr<RankGroups>> groups =
        RankGroups::Join(all, sizes.config(), sizes.stage_weights(), counts);
    ASSERT_TRUE(groups.has_value()) << groups.error().message;
    ModelRanks ranks = (*groups)->ranks();
    ranks.shard.least_index_work = 0;  // tensor ranks share every choice of rows
    testing::TestModel loaded(directory, {.parts = ShardedParts(&ranks)}, {.n_threads = 1});
    Batch batch;
    if (n_before > 0) {
      batch.Add(0, 0, std::vector<Token>(static_cast<std::size_t>(n_before), 3));
      ASSERT_TRUE(loaded.model().Forward(batch).has_value());
      batch.Clear();
    }
    const std::int64_t before = all.traffic().n_bytes;
    batch.Add(0, n_before, kTokens);
    ASSERT_TRUE(loaded.model().Forward(batch).has_value());
    ASSERT_TRUE(loaded.model().Logits(std::array<std::int32_t, 1>{4}).has_value());
    n_bytes += all.traffic().n_bytes - before;
  });
  return n_bytes;
}

TEST(WireTrafficTest, IsWhatTheRanksOfAModelSend) {
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const ModelSizes sizes = ModelSizes::Read(directory).value();
  for (const ParallelLayout& layout :
       {ParallelLayout{.n_tensor = 2}, ParallelLayout{.n_tensor = 2, .expert_parallel = true},
        ParallelLayout{.n_stages = 2}, ParallelLayout{.n_stages = 3},
        ParallelLayout{.n_tensor = 2, .n_stages = 2, .expert_parallel = true},
        ParallelLayout{.n_data = 2, .expert_parallel = true},
        ParallelLayout{.n_stages = 2, .n_data = 2, .expert_parallel = true}}) {
    const WireBytes bytes = BytesPerToken(sizes.config(), layout, ExpertPath::kGather);
    RankCounts counts = layout.counts();
    counts.expert_path = ExpertPath::kGather;
    const double expected =
        static_cast<double>(kTokens.size()) * (bytes.Total() - bytes.logits) + bytes.logits;
    EXPECT_EQ(static_cast<double>(BytesSent(directory, sizes, counts)), expected) << Flags(layout);
  }
}

// Behind 150 tokens there are more than the 32 rows that are chosen.
TEST(WireTrafficTest, TheChoiceOfRowsIsWhatTensorRanksSendBesides) {
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const ModelSizes sizes = ModelSizes::Read(directory).value();
  const std::vector<int>& ratios = sizes.config().compress_ratios;
  const auto layers =
      std::span(ratios).first(static_cast<std::size_t>(sizes.config().num_hidden_layers));
  const auto n_choosing = std::count(layers.begin(), layers.end(), 4);
  ASSERT_GT(n_choosing, 0);
  for (const ParallelLayout& layout :
       {ParallelLayout{.n_tensor = 2}, ParallelLayout{.n_tensor = 2, .n_stages = 2}}) {
    const std::int64_t at_start = BytesSent(directory, sizes, layout.counts());
    EXPECT_EQ(
        static_cast<double>(BytesSent(directory, sizes, layout.counts(), 150) - at_start),
        static_cast<double>(n_choosing) * ChoiceBytes(sizes.config(), layout, std::ssize(kTokens)))
        << Flags(layout);
  }
}

// All of the last token's 1 and 16 visible rows are chosen; of 38 behind 150 tokens, by five
// tokens, at least the 32 rows of one token.
TEST(WireTrafficTest, DividedRowsTravelToTheOtherTensorRanks) {
  const std::filesystem::path directory = testing::ProjectPath("models/fairy");
  const ModelSizes sizes = ModelSizes::Read(directory).value();
  const std::vector<int>& ratios = sizes.config().compress_ratios;
  const auto n_layers = std::count(ratios.begin(), ratios.begin() + 6, 4);
  ASSERT_EQ(sizes.config().num_hidden_layers, 6);
  const ParallelLayout whole = {.n_tensor = 2};
  ParallelLayout divided = whole;
  divided.decode_context_parallel = true;
  const auto tokens = std::ssize(kTokens);
  const auto rows_at = [&](std::int64_t position) {
    return static_cast<double>(n_layers) *
           RowBytes(sizes.config(), divided,
                    {.n_tokens = tokens, .position = position, .n_sequences = 1});
  };
  const auto sent = [&](const ParallelLayout& layout, std::int32_t n_before) {
    return static_cast<double>(BytesSent(directory, sizes, layout.counts(), n_before));
  };
  for (const std::int32_t n_before : {0, 60}) {
    EXPECT_EQ(sent(divided, n_before) - sent(whole, n_before), rows_at(n_before + tokens - 1));
  }
  const double lists = static_cast<double>(n_layers) * ChoiceBytes(sizes.config(), divided, tokens);
  const double rows = sent(divided, 150) - sent(whole, 0) - lists;
  EXPECT_LE(rows, rows_at(154));
  EXPECT_GE(rows, rows_at(127));
}

}  // namespace
}  // namespace fathom::measure::plan
