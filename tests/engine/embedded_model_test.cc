// The engine on the embedded model, against the greedy answers of the official code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/model_adapter.h"
#include "kernels/registry.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

// At smaller margins a legitimate rounding difference may choose the other token.
constexpr double kClearMargin = 0.5;

struct GreedyAnswer {
  std::vector<Token> prompt;
  std::vector<Token> answer;
  std::vector<double> margins;  // between the two best tokens of every step
};

std::vector<GreedyAnswer> ReadGreedyAnswers() {
  const auto json = nlohmann::json::parse(
      testing::ReadFile(testing::ProjectPath("models/fairy/greedy.json")), nullptr, false);
  std::vector<GreedyAnswer> answers;
  for (const nlohmann::json& entry : json) {
    answers.push_back({.prompt = entry.at("prompt_ids").get<std::vector<Token>>(),
                       .answer = entry.at("greedy_ids").get<std::vector<Token>>(),
                       .margins = entry.at("margins").get<std::vector<double>>()});
  }
  return answers;
}

class EmbeddedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = MakeCpuBackend(std::nullopt, 2);
    ASSERT_TRUE(backend) << backend.error().message;
    backend_ = std::move(*backend);
    auto loaded = Model::Load(testing::ProjectPath("models/fairy"), *backend_,
                              {.max_context = 256, .max_batch_tokens = 128, .max_logit_rows = 128});
    ASSERT_TRUE(loaded) << loaded.error().message;
    model_ = std::move(*loaded);
    answers_ = ReadGreedyAnswers();
    ASSERT_EQ(answers_.size(), 8u);
  }
  Model& model() { return *model_; }
  std::vector<Token> eos() const { return {static_cast<Token>(model_->config().eos_token_id)}; }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<GreedyAnswer> answers_;
};

// The greedy choice after every token of `answer` but the last, and after the prompt.
std::vector<Token> ChoicesAlong(Model& model, const std::vector<Token>& prompt,
                                const std::vector<Token>& answer) {
  std::vector<Token> tokens = prompt;
  tokens.insert(tokens.end(), answer.begin(), answer.end() - 1);
  Batch batch;
  batch.Add(0, 0, tokens);
  const Status ran = model.Forward(batch);
  EXPECT_TRUE(ran) << ran.error().message;
  std::vector<std::int32_t> rows(answer.size());
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(prompt.size()) - 1);
  const Matrix<const float> logits = model.Logits(rows);
  Sampler sampler(logits.cols);
  SamplerState state(logits.cols);
  state.Begin({.temperature = 0}, 0, prompt, {});
  TokenLogprobs logprobs;
  std::vector<Token> choices;
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    choices.push_back(sampler.Sample(logits.RowSpan(row), state, row, logprobs).value_or(-1));
  }
  return choices;
}

TEST_F(EmbeddedModel, ChoosesTheOfficialTokenAtClearSteps) {
  int n_clear = 0;
  int n_clear_equal = 0;
  int n_steps = 0;
  int n_equal = 0;
  for (const GreedyAnswer& golden : answers_) {
    const auto choices = ChoicesAlong(model(), golden.prompt, golden.answer);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const bool equal = choices[i] == golden.answer[i];
      const bool clear = golden.margins[i] >= kClearMargin;
      n_steps += 1;
      n_equal += equal;
      n_clear += clear;
      n_clear_equal += clear && equal;
    }
  }
  std::printf("best token as the official code: %d of %d clear steps, %d of all %d\n",
              n_clear_equal, n_clear, n_equal, n_steps);
  ASSERT_GT(n_clear, 100);
  EXPECT_GE(n_clear_equal, 0.99 * n_clear);
}

// Decoding one by one takes the tokens that the model prefers when it sees the answer at once; and
// it follows the official code at least up to the first step that is not clear.
TEST_F(EmbeddedModel, GeneratesGreedily) {
  ModelAdapter adapter(model());
  for (const std::size_t i : {std::size_t{0}, std::size_t{4}}) {  // a raw prompt and a chat prompt
    const GreedyAnswer& golden = answers_[i];
    // Not one for all: ChoicesAlong uses the slot too, behind the generator's back.
    Generator generator(adapter, {.eos_tokens = eos()});
    const auto result = generator.Generate(golden.prompt, {.temperature = 0, .max_tokens = 24});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->tokens, ChoicesAlong(model(), golden.prompt, result->tokens));
    std::size_t n_clear = 0;
    while (n_clear < result->tokens.size() && golden.margins[n_clear] >= kClearMargin) ++n_clear;
    EXPECT_TRUE(std::equal(result->tokens.begin(),
                           result->tokens.begin() + static_cast<std::ptrdiff_t>(n_clear),
                           golden.answer.begin()));
  }
}

// A second turn in the cache, also after rolling back, answers like a fresh start.
TEST_F(EmbeddedModel, ContinuedTurnsEqualFreshOnes) {
  ModelAdapter adapter(model());
  const SamplingParameters parameters{
      .temperature = 0.8, .top_p = 0.95, .seed = 7, .max_tokens = 10};
  const std::vector<Token>& prompt = answers_[0].prompt;
  const auto turn = [&](Generator& generator, const std::vector<Token>& tokens) {
    auto result = generator.Generate(tokens, parameters);
    EXPECT_TRUE(result);
    return std::move(*result);
  };
  Generator first(adapter, {});
  std::vector<Token> longer = prompt;
  const auto answer = turn(first, prompt).tokens;
  longer.insert(longer.end(), answer.begin(), answer.end());
  longer.insert(longer.end(), answers_[1].prompt.begin(), answers_[1].prompt.end());
  const GenerationResult continued = turn(first, longer);
  EXPECT_EQ(continued.timings.reused_tokens, static_cast<std::int64_t>(prompt.size()) + 9);
  std::vector<Token> retried = longer;
  retried.insert(retried.end(), continued.tokens.begin(), continued.tokens.end() - 6);
  retried.push_back(answers_[2].prompt.back());
  const GenerationResult rolled_back = turn(first, retried);
  EXPECT_EQ(rolled_back.timings.reused_tokens, static_cast<std::int64_t>(retried.size()) - 1);
  Generator second(adapter, {});
  EXPECT_EQ(turn(second, longer).tokens, continued.tokens);
  Generator third(adapter, {});
  EXPECT_EQ(turn(third, retried).tokens, rolled_back.tokens);
}

}  // namespace
}  // namespace fathom
