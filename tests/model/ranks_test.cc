// The same bits from any number of ranks: tensor ranks, expert ranks and stages, in every
// combination that the model can be cut in.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model_ranks.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/ranks.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using testing::Sequence;

constexpr std::int64_t kTokens = 150;  // more than a window and a row of ratio 128

struct CheckpointCase {
  const char* name;
  const char* golden;  // in the golden data; nullptr: the embedded model
};

class Ranks : public ::testing::TestWithParam<CheckpointCase> {
 protected:
  void SetUp() override {
    directory_ = GetParam().golden == nullptr ? std::optional(testing::ProjectPath("models/fairy"))
                                              : testing::SharedData(GetParam().golden);
    if (!directory_) {
      GTEST_SKIP() << testing::kNoSharedData;
    }
    testing::TestModel alone(*directory_, Options(nullptr), {.n_threads = 1});
    config_ = alone.model().config();
    tokens_ = testing::RandomTokens(config_, kTokens, 1);
    expected_.emplace(testing::RunAlone(alone.model(), tokens_, {kTokens}));
    Result<Checkpoint> checkpoint = Checkpoint::Open(*directory_);
    ASSERT_TRUE(checkpoint.has_value());
    weights_ = WeighStages(*checkpoint, config_);
  }

  static ModelOptions Options(const ModelRanks* ranks) {
    return {.max_sequences = 2,
            .max_context = kTokens,
            .max_batch_tokens = kTokens,
            .max_logit_rows = 32,
            .with_mtp = true,
            .ranks = ranks};
  }

  void RunCut(const RankCounts& counts) {
    const std::string what = std::to_string(counts.n_tensor) + " tensor ranks, " +
                             std::to_string(counts.n_stages) + " stages, experts " +
                             (counts.expert_parallel ? "cut" : "whole");
    testing::RunRanks(counts.n_tensor * counts.n_stages, [&](Communicator& all) {
      Result<std::unique_ptr<RankGroups>> groups = RankGroups::Join(all, config_, weights_, counts);
      ASSERT_TRUE(groups.has_value()) << groups.error().message;
      testing::TestModel loaded(*directory_, Options(&(*groups)->ranks()), {.n_threads = 1});
      // A prompt, a chunk, single tokens.
      const Sequence found = testing::RunAlone(loaded.model(), tokens_, {100, 47, 1});
      if (all.rank() == 0) {
        testing::ExpectSameBits(*expected_, found, kTokens, what);
      }
    });
  }

  std::optional<std::filesystem::path> directory_;
  ModelConfig config_;
  StageWeights weights_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;
};

TEST_P(Ranks, AnyCutGivesTheSameBits) {
  int n_cuts = 0;
  for (const int n_tensor : {1, 2, 4, 8}) {
    for (const int n_stages : {1, 2, 4, 8}) {
      for (const bool expert_parallel : {false, true}) {
        const RankCounts counts = {n_tensor, n_stages, expert_parallel};
        const int n_ranks = n_tensor * n_stages;
        const bool says_it_again = n_tensor == 1 && expert_parallel;
        if (n_ranks == 1 || n_ranks > 8 || says_it_again ||
            !CheckCounts(config_, counts, n_ranks)) {
          continue;
        }
        RunCut(counts);
        ++n_cuts;
      }
    }
  }
  EXPECT_GE(n_cuts, 5);
}

INSTANTIATE_TEST_SUITE_P(All, Ranks,
                         ::testing::Values(CheckpointCase{"fairy", nullptr},
                                           CheckpointCase{"flash_mini", "oracle/flash-mini"},
                                           CheckpointCase{"pro_mini", "oracle/pro-mini"},
                                           CheckpointCase{"base_mini", "oracle/base-mini"}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace fathom
