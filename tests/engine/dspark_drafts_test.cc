// Drafts of DSpark at every depth and at the automatic one, by name: every answer is the one
// without drafts, whatever the prompt, its chunks, and the blocks that were cached.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "tests/engine/model_on_backend.h"
#include "tests/engine/one_request.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kBlockSize = 5;  // of dspark-mini
constexpr std::int64_t kAnswer = 14;

std::vector<Token> LongPrompt(int n_tokens) {
  std::vector<Token> prompt;
  for (int i = 0; i < n_tokens; ++i)
    prompt.push_back(static_cast<Token>((7 + i * 31 + i / 9) % 500));
  return prompt;
}

// Shared beginnings of any number of blocks, and ends before, at and behind blocks.
std::vector<Request> DraftedRequests() {
  std::vector<Request> requests;
  for (const int n_prompt : {1, 2, 300, 127, 128, 129, 256, 257, 300, 385}) {
    for (const double temperature : {0.0, 1.0}) {
      requests.push_back(
          {.prompt = LongPrompt(n_prompt),
           .sampling = {
               .temperature = temperature, .seed = 3, .max_tokens = kAnswer, .ignore_eos = true}});
    }
  }
  return requests;
}

struct DraftedAnswers {
  std::vector<std::vector<Token>> tokens;
  std::int64_t n_drafted = 0;
  std::int64_t n_cached = 0;
};

// One request after the other, then all of them twice at once.
DraftedAnswers AnswerAll(LanguageModel& model, const DraftOptions& draft,
                         std::int64_t max_step_tokens) {
  EngineMetrics metrics(kBlockSize);
  auto core =
      EngineCore::Create(model, {.draft = draft, .max_step_tokens = max_step_tokens}, metrics);
  EXPECT_TRUE(core) << (core ? "" : core.error().message);
  DraftedAnswers answers;
  std::vector<TokenStream> streams;
  const auto add = [&](const Request& request) {
    auto state = (*core)->Prepare(request, std::make_shared<Waker>());
    EXPECT_TRUE(state) << (state ? "" : state.error().message);
    streams.emplace_back((*state)->stream);
    (*core)->Add(*std::move(state));
  };
  const auto finish = [&] {
    std::vector<std::vector<Token>> tokens(streams.size());
    StreamEvent event;
    while ((*core)->Step() != StepOutcome::kIdle) {
      for (std::size_t i = 0; i < streams.size(); ++i) {
        while (streams[i].NextFor(std::chrono::milliseconds(0), event).value_or(false)) {
          EXPECT_FALSE(event.error) << event.error->message;
          if (event.token != StreamEvent::kNoToken) tokens[i].push_back(event.token);
        }
      }
    }
    for (TokenStream& stream : streams) {
      answers.n_drafted += stream.stats().drafted_tokens;
      answers.n_cached += stream.stats().cached_tokens;
    }
    streams.clear();
    answers.tokens.insert(answers.tokens.end(), tokens.begin(), tokens.end());
  };
  for (const Request& request : DraftedRequests()) {
    add(request);
    finish();
  }
  for (int i = 0; i < 2; ++i) {
    for (const Request& request : DraftedRequests()) add(request);
  }
  finish();
  return answers;
}

class DSparkDrafts : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(DSparkDrafts, GiveTheAnswersOfNoDrafts) {
  const auto directory = SharedData("oracle/dspark-mini");
  if (!directory) GTEST_SKIP() << kNoSharedData;
  TestModel loaded(*directory, {.max_sequences = 6,
                                .max_context = 512,
                                .max_batch_tokens = 96,
                                .max_logit_rows = 24,
                                .with_draft = true});
  Model& model = loaded.model();
  ASSERT_EQ(model.Limits().max_draft_depth, kBlockSize);
  const DraftedAnswers expected = AnswerAll(model, {}, 0);
  EXPECT_GT(expected.n_cached, 0);
  for (const std::int64_t max_step_tokens : {0, 37, 7}) {
    const DraftedAnswers found =
        AnswerAll(model, {.enabled = true, .depth = GetParam()}, max_step_tokens);
    EXPECT_EQ(found.tokens, expected.tokens) << max_step_tokens << " tokens a step";
    EXPECT_GT(found.n_cached, 0);
    if (GetParam() > 0) {
      EXPECT_GT(found.n_drafted, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, DSparkDrafts, ::testing::Range<std::int64_t>(0, kBlockSize + 1),
                         [](const auto& test) {
                           return test.param == 0 ? std::string("automatic")
                                                  : fmt::format("depth_{}", test.param);
                         });

}  // namespace
}  // namespace fathom::testing
