// FillCache: a sequence as after a text that nobody has read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/sequence.h"
#include "tests/model/test_model.h"
#include "tests/testing/shared_data.h"

namespace fathom::model {
namespace {

const ModelOptions kOptions{.max_sequences = 2, .max_context = 1000, .max_batch_tokens = 16};

std::filesystem::path Fairy() { return testing::ProjectPath("models/fairy"); }

Status Forward(Model& model, std::int32_t sequence, std::int32_t position,
               const std::vector<Token>& tokens) {
  Batch batch;
  batch.Add(sequence, position, tokens);
  return model.Forward(batch);
}

// The logits after these tokens at these positions, behind a filled cache.
std::vector<float> LogitsAfter(Model& model, std::int32_t sequence, std::int64_t n_filled,
                               std::uint64_t seed, const std::vector<Token>& tokens) {
  EXPECT_TRUE(model.FillCache(sequence, n_filled, seed));
  const Status ran = Forward(model, sequence, static_cast<std::int32_t>(n_filled), tokens);
  EXPECT_TRUE(ran) << ran.error().message;
  const std::vector<std::int32_t> last = {static_cast<std::int32_t>(tokens.size()) - 1};
  const std::span<const float> logits = model.Logits(last)->RowSpan(0);
  return {logits.begin(), logits.end()};
}

TEST(FillCache, TheSequenceGoesOnBehindIt) {
  testing::TestModel loaded(Fairy(), kOptions);
  Model& model = loaded.model();
  const std::vector<Token> tokens = testing::RandomTokens(model.config(), 6, 1);
  ASSERT_TRUE(model.FillCache(0, 500, 1));
  EXPECT_FALSE(Forward(model, 0, 501, tokens));
  EXPECT_FALSE(Forward(model, 0, 490, tokens));  // further back than may be taken back
  EXPECT_TRUE(Forward(model, 0, 500, tokens));
  EXPECT_TRUE(Forward(model, 0, 506, tokens));
  EXPECT_FALSE(Forward(model, 1, 500, tokens));  // the other one stands where it stood
  EXPECT_TRUE(Forward(model, 0, 0, tokens));
}

TEST(FillCache, LogitsAreNumbersThatFollowFromTheSeed) {
  testing::TestModel loaded(Fairy(), kOptions);
  Model& model = loaded.model();
  const std::vector<Token> tokens = testing::RandomTokens(model.config(), 10, 2);
  // 1: no finished row; 63 and 64: rows of the ratio-128 layers are half done; 990: to the end.
  for (const std::int64_t n_filled : {1, 63, 64, 131, 990}) {
    const std::vector<float> logits = LogitsAfter(model, 0, n_filled, 5, tokens);
    for (const float logit : logits) {
      ASSERT_TRUE(std::isfinite(logit)) << n_filled;
    }
    EXPECT_EQ(LogitsAfter(model, 1, n_filled, 5, tokens), logits) << n_filled;
    EXPECT_NE(LogitsAfter(model, 1, n_filled, 6, tokens), logits) << n_filled;
  }
}

TEST(FillCache, RefusesWhatTheModelDoesNotHave) {
  testing::TestModel loaded(Fairy(), kOptions);
  for (const auto& [sequence, n_tokens, message] :
       {std::tuple(-1, 10, "sequence: expected 0 to 1, found -1"),
        std::tuple(2, 10, "sequence: expected 0 to 1, found 2"),
        std::tuple(0, 0, "expected 1 to 1000 tokens (the context), found 0"),
        std::tuple(0, 1001, "found 1001")}) {
    const Status status = loaded.model().FillCache(sequence, n_tokens, 1);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, ::testing::HasSubstr(message));
  }
}

TEST(RoutingObserver, IsToldTheExpertsOfEveryLayer) {
  testing::TestModel loaded(Fairy(), kOptions);
  Model& model = loaded.model();
  std::int64_t n_layers = 0;
  model.ObserveRouting([&](Matrix<const std::int32_t> ids) {
    ++n_layers;
    ASSERT_EQ(ids.rows, 5);
    ASSERT_EQ(ids.cols, model.config().num_experts_per_tok);
    for (std::int64_t row = 0; row < ids.rows; ++row) {
      ASSERT_GE(ids.Row(row)[0], 0);
      ASSERT_LT(ids.Row(row)[0], ids.Row(row)[1]);
      ASSERT_LT(ids.Row(row)[1], model.config().n_routed_experts);
    }
  });
  ASSERT_TRUE(Forward(model, 0, 0, testing::RandomTokens(model.config(), 5, 3)));
  EXPECT_EQ(n_layers, model.config().num_hidden_layers);
  model.ObserveRouting({});
  ASSERT_TRUE(Forward(model, 0, 5, testing::RandomTokens(model.config(), 5, 3)));
  EXPECT_EQ(n_layers, model.config().num_hidden_layers);
}

}  // namespace
}  // namespace fathom::model
