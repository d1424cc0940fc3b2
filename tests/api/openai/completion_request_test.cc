#include "api/openai/openai_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fathom::api {
namespace {

using ::testing::ElementsAre;

constexpr RequestLimits kCompletionLimits = {
    .vocab_size = 1000, .max_context = 4096, .max_prompts = 3};

Result<CompletionRequest> ParseCompletion(const std::string& body) {
  return ParseCompletionRequest(body, kCompletionLimits, {});
}

std::string ErrorMessage(const std::string& body) {
  const auto request = ParseCompletion(body);
  return request ? "accepted" : request.error().message;
}

TEST(CompletionRequestTest, PromptsInAllForms) {
  const CompletionPrompt a = std::string("a");
  const CompletionPrompt tokens = std::vector<Token>{1, 2};
  EXPECT_THAT(ParseCompletion(R"({"prompt": "a"})")->prompts, ElementsAre(a));
  EXPECT_THAT(ParseCompletion(R"({"prompt": ["a", "a"]})")->prompts, ElementsAre(a, a));
  EXPECT_THAT(ParseCompletion(R"({"prompt": [1, 2]})")->prompts, ElementsAre(tokens));
  EXPECT_THAT(ParseCompletion(R"({"prompt": [[1, 2], [1, 2]]})")->prompts,
              ElementsAre(tokens, tokens));
  EXPECT_THAT(ParseCompletion(R"({"prompt": ["a", [1, 2]]})")->prompts, ElementsAre(a, tokens));
}

TEST(CompletionRequestTest, ByteOrderMark) {
  EXPECT_EQ(ErrorMessage("\xEF\xBB\xBF{\"prompt\": \"a\"}"), "accepted");
  EXPECT_NE(ErrorMessage("\xEF\xBB\xBF\xEF\xBB\xBF{\"prompt\": \"a\"}"), "accepted");
}

TEST(CompletionRequestTest, WrongPrompts) {
  constexpr std::string_view kKinds =
      "prompt: expected a string, a list of strings, a list of token ids or a list of such lists, "
      "found ";
  EXPECT_EQ(ErrorMessage("{}"), std::string(kKinds) + "nothing");
  EXPECT_EQ(ErrorMessage(R"({"prompt": null})"), std::string(kKinds) + "nothing");
  EXPECT_EQ(ErrorMessage(R"({"prompt": 5})"), std::string(kKinds) + "5");
  EXPECT_EQ(ErrorMessage(R"({"prompt": []})"), std::string(kKinds) + "an empty list");
  EXPECT_EQ(ErrorMessage(R"({"prompt": [1000]})"),
            "prompt[0]: expected an integer from 0 to 999, found 1000");
  EXPECT_EQ(ErrorMessage(R"({"prompt": [1, "a"]})"),
            "prompt[1]: expected an integer from 0 to 999, found \"a\"");
  EXPECT_EQ(ErrorMessage(R"({"prompt": [1.5]})"),
            "prompt[0]: expected an integer from 0 to 999, found 1.5");
  EXPECT_EQ(ErrorMessage(R"({"prompt": [[]]})"),
            "prompt[0]: expected at least one token, found none");
  EXPECT_EQ(ErrorMessage(R"({"prompt": ["a", null]})"),
            "prompt[1]: expected a string or a list of token ids, found null");
  EXPECT_EQ(ErrorMessage(R"({"prompt": ["a", [1, -1]]})"),
            "prompt[1][1]: expected an integer from 0 to 999, found -1");
  EXPECT_EQ(ErrorMessage(R"({"prompt": ["a", "b", "c", "d"]})"),
            "prompt: expected at most 3 prompts, found 4");
}

TEST(CompletionRequestTest, OtherFields) {
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a"})")->generation.sampling.top_logprobs, std::nullopt);
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "logprobs": 0})")->generation.sampling.top_logprobs,
            0);
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "logprobs": 5})")->generation.sampling.top_logprobs,
            5);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "logprobs": true})"),
            "logprobs: expected an integer from 0 to 20, found true");
  EXPECT_FALSE(
      ParseCompletion(R"({"prompt": "a", "add_special_tokens": false})")->add_special_tokens);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "echo": false, "suffix": "", "best_of": 1})"),
            "accepted");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "n": 2, "best_of": 2})"), "accepted");
  EXPECT_TRUE(ParseCompletion(R"({"prompt": "a", "echo": true})")->echo);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "echo": true, "logprobs": 0})"), "accepted");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "echo": true, "logprobs": 0, "suffix": "b"})"),
            "echo: not supported with logprobs and suffix, whose tokens are no text");
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "echo": true, "max_tokens": 0})")
                ->generation.sampling.max_tokens,
            0);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "max_tokens": 0})"),
            "max_tokens: expected an integer of at least 1, found 0");
  EXPECT_THAT(ErrorMessage(R"({"prompt": "a", "thinking_token_budget": 5})"),
              ::testing::StartsWith("thinking_token_budget: not supported"));
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "thinking_token_budget": -1})"), "accepted");
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "suffix": ""})")->suffix, std::nullopt);
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "suffix": "b"})")->suffix, "b");
}

TEST(CompletionRequestTest, TheBestOfSeveral) {
  const auto request = ParseCompletion(R"({"prompt": "a", "n": 2, "best_of": 5})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->generation.n_choices, 5);
  EXPECT_EQ(request->n_told, 2);
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "n": 3})")->n_told, 3);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "n": 2, "best_of": 1})"),
            "best_of: expected an integer from 2 to 8, found 1");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "best_of": 9})"),
            "best_of: expected an integer from 1 to 8, found 9");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "best_of": 2, "stream": true})"),
            "best_of: expected n where the answers are streamed, found 2");
}

TEST(CompletionRequestTest, LogprobsOfThePrompt) {
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a"})")->generation.prompt_logprobs, std::nullopt);
  EXPECT_EQ(ParseCompletion(R"({"prompt": "a", "prompt_logprobs": 0})")->generation.prompt_logprobs,
            0);
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "prompt_logprobs": 2, "max_tokens": 0})"), "accepted");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "prompt_logprobs": -1})"),
            "prompt_logprobs: expected an integer from 0 to 20, found -1");
  EXPECT_EQ(ErrorMessage(R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})"),
            "prompt_logprobs: expected no stream with them, found stream: true");
}

}  // namespace
}  // namespace fathom::api
