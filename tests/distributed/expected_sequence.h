// The results of one rank for a sequence, for comparison with several ranks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/safetensors.h"
#include "distributed/model_ranks.h"
#include "tests/model/checkpoint_case.h"
#include "tests/model/sequence.h"
#include "tests/model/test_model.h"

namespace fathom::testing {

class ExpectedSequence : public ::testing::TestWithParam<CheckpointCase> {
 protected:
  // n random tokens, all at once. Skips the test if the checkpoint is not there.
  void RunExpected(const ModelOptions& options, std::int64_t n, unsigned seed) {
    directory_ = GetParam().Directory();
    if (!directory_) {
      GTEST_SKIP() << kNoSharedData;
    }
    TestModel alone(*directory_, options, {.n_threads = 1});
    config_ = alone.model().config();
    tokens_ = RandomTokens(config_, n, seed);
    expected_.emplace(RunAlone(alone.model(), tokens_, {n}));
    const Result<Checkpoint> checkpoint = Checkpoint::Open(*directory_);
    ASSERT_TRUE(checkpoint.has_value());
    weights_ = WeighStages(*checkpoint, config_);
  }

  std::optional<std::filesystem::path> directory_;
  ModelConfig config_;
  StageWeights weights_;
  std::vector<Token> tokens_;
  std::optional<Sequence> expected_;
};

}  // namespace fathom::testing
