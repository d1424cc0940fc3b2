// The engine on the embedded model, against the greedy answers of the official code.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "kernels/registry.h"
#include "tests/testing/shared_data.h"

namespace fathom::engine {
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

// The model, and an engine core on it.
class Served {
 public:
  explicit Served(bool drafts = false, bool prefix_cache = true)
      : Served({.enabled = drafts, .depth = drafts ? 3 : 0}, prefix_cache) {}
  explicit Served(const DraftOptions& draft, bool prefix_cache = true) {
    auto backend = MakeCpuBackend(std::nullopt, 2);
    EXPECT_TRUE(backend) << backend.error().message;
    backend_ = std::move(*backend);
    auto loaded = Model::Load(testing::ProjectPath("models/fairy"), *backend_,
                              {.max_sequences = 8,
                               .max_context = 512,
                               .max_batch_tokens = 64,
                               .max_logit_rows = 40,
                               .with_draft = draft.enabled});
    EXPECT_TRUE(loaded) << loaded.error().message;
    model_ = std::move(*loaded);
    auto core =
        EngineCore::Create(*model_,
                           {.eos_tokens = {static_cast<Token>(model_->config().eos_token_id)},
                            .prefix_cache = prefix_cache,
                            .draft = draft},
                           metrics_);
    EXPECT_TRUE(core) << core.error().message;
    core_ = std::move(*core);
  }

  TokenStream Submit(const Request& request) {
    auto state = core_->Prepare(request, std::make_shared<Waker>());
    EXPECT_TRUE(state) << state.error().message;
    TokenStream stream((*state)->stream);
    core_->Add(*std::move(state));
    return stream;
  }

  const EngineMetrics& metrics() const { return metrics_; }

  struct Answer {
    std::vector<Token> tokens;
    std::vector<TokenLogprobs> logprobs;  // if asked for
    std::optional<FinishReason> finish;
    RequestStats stats;
  };
  // Runs until the stream has ended.
  Answer Read(TokenStream& stream) {
    Answer answer;
    StreamEvent event;
    while (true) {
      const std::optional<bool> next = stream.NextFor(std::chrono::milliseconds(0), event);
      if (!next) {
        core_->Step();
      } else if (*next) {
        EXPECT_FALSE(event.error) << event.error->message;
        if (event.token != StreamEvent::kNoToken) answer.tokens.push_back(event.token);
        if (event.logprobs) answer.logprobs.push_back(*event.logprobs);
        if (event.finish) answer.finish = event.finish;
      } else {
        answer.stats = stream.stats();
        return answer;
      }
    }
  }
  Answer Generate(const Request& request) {
    TokenStream stream = Submit(request);
    return Read(stream);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  EngineMetrics metrics_;
  std::unique_ptr<EngineCore> core_;
};

// The model alone.
class Alone {
 public:
  Alone() {
    auto backend = MakeCpuBackend(std::nullopt, 2);
    EXPECT_TRUE(backend) << backend.error().message;
    backend_ = std::move(*backend);
    auto loaded = Model::Load(testing::ProjectPath("models/fairy"), *backend_,
                              {.max_context = 256, .max_batch_tokens = 128, .max_logit_rows = 128});
    EXPECT_TRUE(loaded) << loaded.error().message;
    model_ = std::move(*loaded);
  }
  Model& model() { return *model_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
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
  const Matrix<const float> logits = *model.Logits(rows);
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

TEST(EmbeddedModel, ChoosesTheOfficialTokenAtClearSteps) {
  const std::vector<GreedyAnswer> answers = ReadGreedyAnswers();
  ASSERT_EQ(answers.size(), 8u);
  Alone alone;
  int n_clear = 0;
  int n_clear_equal = 0;
  int n_steps = 0;
  int n_equal = 0;
  for (const GreedyAnswer& golden : answers) {
    const auto choices = ChoicesAlong(alone.model(), golden.prompt, golden.answer);
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

// Decoding one by one, drafted or not, chooses the tokens that the model prefers when it reads the
// answer as a prompt; and it follows the official code at least up to the first step that is not
// clear.
TEST(EmbeddedModel, GeneratesGreedily) {
  Alone alone;
  Served plain;
  Served drafted(/*drafts=*/true);
  for (const GreedyAnswer& golden : ReadGreedyAnswers()) {
    const Request request = {.prompt = golden.prompt,
                             .sampling = {.temperature = 0, .max_tokens = 24}};
    const Served::Answer answer = plain.Generate(request);
    ASSERT_FALSE(answer.tokens.empty());
    EXPECT_EQ(answer.tokens, ChoicesAlong(alone.model(), golden.prompt, answer.tokens));
    const Served::Answer with_drafts = drafted.Generate(request);
    EXPECT_EQ(with_drafts.tokens, answer.tokens);
    EXPECT_TRUE(answer.tokens.size() < 3 || with_drafts.stats.drafted_tokens > 0);
    std::size_t n_clear = 0;
    while (n_clear < std::min(answer.tokens.size(), golden.answer.size()) &&
           golden.margins[n_clear] >= kClearMargin) {
      ++n_clear;
    }
    EXPECT_TRUE(std::equal(answer.tokens.begin(),
                           answer.tokens.begin() + static_cast<std::ptrdiff_t>(n_clear),
                           golden.answer.begin()));
  }
}

// Answers that are nearly greedy repeat themselves; what they repeat is looked up, with a draft
// head and without, and the answers stay the same.
TEST(EmbeddedModel, LooksUpWhatItsAnswersRepeat) {
  const std::vector<Token> prompt = ReadGreedyAnswers().front().prompt;
  for (const double temperature : {0.0, 1.0}) {
    const Request request = {.prompt = prompt,
                             .sampling = {.temperature = temperature,
                                          .top_p = 0.3,
                                          .seed = 3,
                                          .max_tokens = 250,
                                          .ignore_eos = true}};
    const std::vector<Token> expected = Served().Generate(request).tokens;
    ASSERT_EQ(expected.size(), 250u);
    for (const std::int64_t depth : {1, 4, 0}) {
      for (const bool head : {false, true}) {
        if (head && depth == 1) continue;
        Served served({.enabled = head, .lookups = true, .lookup_depth = depth});
        EXPECT_EQ(served.Generate(request).tokens, expected) << depth << " at " << temperature;
        const MetricsSnapshot now = served.metrics().Snapshot();
        if (depth == 0) continue;  // as measurement says
        EXPECT_GT(now.looked_up[static_cast<std::size_t>(depth - 1)], 0) << temperature;
        EXPECT_GT(now.accepted_lookups[0], 5) << temperature;
      }
    }
  }
}

// An answer that is read as a prompt scores what it scored when it was generated, to the bit.
TEST(EmbeddedModel, ScoresItsAnswersAsItGeneratedThem) {
  for (const bool drafts : {false, true}) {
    Served served(drafts);
    for (const GreedyAnswer& golden : ReadGreedyAnswers()) {
      const SamplingParameters sampling = {.top_logprobs = 3, .seed = 5, .max_tokens = 40};
      const Served::Answer answer =
          served.Generate({.prompt = golden.prompt, .sampling = sampling});
      std::vector<Token> text = golden.prompt;
      text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
      const Served::Answer scored =
          served.Generate({.prompt = text, .sampling = {.max_tokens = 0}, .prompt_logprobs = 3});
      ASSERT_NE(scored.stats.prompt_logprobs, nullptr);
      ASSERT_EQ(scored.stats.prompt_logprobs->size(), text.size() - 1);
      for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
        const TokenLogprobs& found = (*scored.stats.prompt_logprobs)[golden.prompt.size() + i - 1];
        const TokenLogprobs& expected = answer.logprobs[i];
        EXPECT_EQ(found.chosen.token, answer.tokens[i]);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(found.chosen.logprob),
                  std::bit_cast<std::uint32_t>(expected.chosen.logprob));
        EXPECT_EQ(found.rank, expected.rank);
        ASSERT_EQ(found.top.size(), 3u);
        EXPECT_EQ(found.top[2].token, expected.top[2].token);
      }
    }
  }
}

// A second turn that begins behind cached blocks answers like a fresh start.
TEST(EmbeddedModel, ContinuedTurnsEqualFreshOnes) {
  const std::vector<GreedyAnswer> answers = ReadGreedyAnswers();
  const SamplingParameters sampling{.temperature = 0.8, .top_p = 0.95, .seed = 7, .max_tokens = 20};
  for (const bool drafts : {false, true}) {
    Served served(drafts);
    std::vector<Token> conversation;
    while (conversation.size() < 280) {
      for (const GreedyAnswer& golden : answers) {
        conversation.insert(conversation.end(), golden.prompt.begin(), golden.prompt.end());
      }
    }
    conversation.resize(280);
    for (int turn = 0; turn < 3; ++turn) {
      const Request request = {.prompt = conversation, .sampling = sampling};
      const Served::Answer continued = served.Generate(request);
      EXPECT_EQ(continued.stats.cached_tokens,
                turn == 0 ? 0 : (std::ssize(conversation) - 1) / 128 * 128);
      Served fresh(drafts, /*prefix_cache=*/false);
      EXPECT_EQ(fresh.Generate(request).tokens, continued.tokens) << turn;
      conversation.insert(conversation.end(), continued.tokens.begin(), continued.tokens.end());
      conversation.push_back(answers[0].prompt[1]);
    }
  }
}

}  // namespace
}  // namespace fathom::engine
