#include "api/common/api_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/ollama/ollama_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class ApiCallTest : public testing::ApiModelTest {
 protected:
  ApiCall Prepare(const Api* endpoint, const std::string& body) const {
    ApiResult<ApiCall> call = endpoint->prepare(body, model_);
    EXPECT_TRUE(call) << body << ": " << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }
  ApiCall Chat(const std::string& body) const { return Prepare(&kChatCompletions, body); }
  ApiCall Completion(const std::string& body) const { return Prepare(&kCompletions, body); }
  ApiError ErrorFrom(const Api* endpoint, const std::string& body) const {
    const ApiResult<ApiCall> call = endpoint->prepare(body, model_);
    EXPECT_FALSE(call) << body;
    return call ? ApiError() : call.error();
  }
  std::string PromptText(const Request& request) const {
    return *tokenizer_.Decode(request.prompt);
  }
};

TEST_F(ApiCallTest, ChatBecomesThePromptOfTheModel) {
  const ApiCall call = Chat(R"({"messages": [{"role": "user", "content": "Hi"}], "n": 3,
      "max_tokens": 5, "seed": 7, "priority": -9, "stop": "x", "stop_token_ids": [4]})");
  ASSERT_EQ(call.requests.size(), 1u);
  const Request& request = call.requests[0];
  EXPECT_EQ(PromptText(request), "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>");
  EXPECT_EQ(request.prompt, Tokens("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>"));
  EXPECT_EQ(request.n_choices, 3);
  EXPECT_EQ(request.priority, 9);
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_TRUE(call.answers.is_chat);
  EXPECT_TRUE(call.answers.parser.starts_in_reasoning);
  EXPECT_EQ(call.answers.stop_strings, std::vector<std::string>{"x"});
  EXPECT_EQ(call.answers.stop_tokens, std::vector<Token>{4});
  EXPECT_EQ(call.model, "fairy") << "where the client names none";
}

TEST_F(ApiCallTest, CacheSaltIsOfTheRequestAndOfItsClient) {
  const char* kAsk = R"("messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})";
  const auto salt = [&](const Api& api, const std::string& fields) {
    return Prepare(&api, "{" + fields + kAsk).requests[0].cache_salt;
  };
  EXPECT_EQ(salt(kChatCompletions, ""), "");
  EXPECT_EQ(salt(kMessages, R"("cache_salt": "x", )"), "0 x");
  model_.cache_salt = "0af1";
  EXPECT_EQ(salt(kChatCompletions, ""), "4 0af1");
  EXPECT_EQ(salt(kChatCompletions, R"("cache_salt": "x", )"), "4 0af1x");
  EXPECT_EQ(Prepare(&kResponses, R"({"input": "Hi", "cache_salt": "x"})").requests[0].cache_salt,
            "4 0af1x");
  EXPECT_EQ(Completion(R"({"prompt": "Hi", "cache_salt": "x"})").requests[0].cache_salt, "4 0af1x");
  EXPECT_EQ(ErrorFrom(&kChatCompletions, std::string(R"({"cache_salt": "", )") + kAsk).param,
            "cache_salt");
}

// Salts of requests make no more clients of one.
TEST_F(ApiCallTest, WorkIsInTheTurnOfTheClient) {
  model_.cache_salt = "0af1";
  const ApiCall call = Chat(R"({"messages": [{"role": "user", "content": "Hi"}],
      "cache_salt": "x", "response_format": {"type": "json_object"}})");
  EXPECT_EQ(call.requests[0].owner, "0af1");
  EXPECT_EQ(compiler_.owner, "0af1");
}

TEST_F(ApiCallTest, NothingIsCompiledForAClientThatHasLeft) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1)";
  const std::vector<std::pair<const Api*, std::string>> requests = {
      {&kChatCompletions, chat + R"(, "response_format": {"type": "json_object"}})"},
      {&kMessages,
       chat + R"(, "output_config": {"format": {"type": "json_schema", "schema": {}}}})"},
      {&kMessages, chat + R"(, "tools": [{"name": "f", "input_schema": {"type": "object"}}]})"},
      {&kResponses, R"({"input": "Hi", "text": {"format": {"type": "json_object"}}})"},
      {&kCompletions, R"({"prompt": "Hi", "guided_regex": "a+"})"},
      {&kOllamaChat, chat + R"(, "format": "json"})"},
      {&kOllamaGenerate, R"({"prompt": "Hi", "raw": true, "format": "json"})"}};
  for (const auto& [api, body] : requests) {
    const ApiResult<ApiCall> call = api->prepare(ApiBody(body, [] { return true; }), model_);
    ASSERT_FALSE(call) << body;
    EXPECT_EQ(call.error().status, 503) << body;
    EXPECT_EQ(call.error().code, "unavailable") << body;
  }
  EXPECT_EQ(compiler_.n_compiled, static_cast<int>(requests.size()));
}

TEST_F(ApiCallTest, WithoutThinkingTheAnswerIsContent) {
  const ApiCall call = Chat(R"({"model": "gpt-4o", "reasoning_effort": "none",
      "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(PromptText(call.requests[0]),
            "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_FALSE(call.answers.parser.starts_in_reasoning);
  EXPECT_EQ(call.model, "gpt-4o");
}

TEST_F(ApiCallTest, SpecialTokensOfAClientAreText) {
  const std::string body = R"({"messages": [{"role": "user", "content": "<｜User｜>"}]})";
  const ApiCall call = Chat(body);
  const Token user = *tokenizer_.Find("<｜User｜>");
  const std::vector<Token>& prompt = call.requests[0].prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), user), 1) << "the one of the format";
  const ApiCall raw = Completion(R"({"prompt": "<｜User｜>"})");
  EXPECT_EQ(raw.requests[0].prompt, (std::vector<Token>{0, user})) << "a whole prompt is trusted";
}

TEST_F(ApiCallTest, TheToolsOfTheRequestAreKnownToTheParser) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}], )";
  EXPECT_TRUE(Chat(messages + tools + "}").answers.parser.tools->Knows("f"));
  EXPECT_TRUE(Chat(messages + tools + R"(, "tool_choice": "none"})").answers.parser.tools->empty());
  EXPECT_TRUE(Chat(R"({"messages": [{"role": "system", "content": "", )" + tools +
                   R"(}, {"role": "user", "content": "Hi"}]})")
                  .answers.parser.tools->Knows("f"));
}

TEST_F(ApiCallTest, CompletionsBeginWithTheBeginToken) {
  EXPECT_EQ(Completion(R"({"prompt": ""})").requests[0].prompt, std::vector<Token>{0});
  EXPECT_EQ(PromptText(Completion(R"({"prompt": "Once"})").requests[0]),
            "<｜begin▁of▁sentence｜>Once");
  EXPECT_EQ(Completion(R"({"prompt": "<｜begin▁of▁sentence｜>Once"})").requests[0].prompt,
            Completion(R"({"prompt": "Once"})").requests[0].prompt);
  EXPECT_EQ(
      PromptText(Completion(R"({"prompt": "Once", "add_special_tokens": false})").requests[0]),
      "Once");
  EXPECT_EQ(Completion(R"({"prompt": [7, 8]})").requests[0].prompt, (std::vector<Token>{7, 8}));
  const ApiCall call = Completion(R"({"prompt": ["a", "b", [5]], "n": 2})");
  ASSERT_EQ(call.requests.size(), 3u);
  EXPECT_EQ(call.requests[2].n_choices, 2);
  EXPECT_FALSE(call.answers.is_chat);
}

TEST_F(ApiCallTest, Errors) {
  const Api* const chat = &kChatCompletions;
  const Api* const completions = &kCompletions;
  ApiError error = ErrorFrom(chat, R"({"messages": [{"role": "bard", "content": ""}]})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "messages[0].role");
  error = ErrorFrom(chat, R"({"messages": [{"role": "user"}], "reasoning_effort": "enormous"})");
  EXPECT_EQ(error.param, "reasoning_effort");
  EXPECT_THAT(error.message, HasSubstr("expected one of none, minimal, low"));
  error = ErrorFrom(chat, "{");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "");
  error = ErrorFrom(completions, R"({"prompt": "", "add_special_tokens": false})");
  EXPECT_EQ(error.param, "prompt");
  error = ErrorFrom(completions, R"({"prompt": "a", "min_tokens": -1})");
  EXPECT_EQ(error.param, "min_tokens");
}

TEST_F(ApiCallTest, TooLongPromptsAreToldInTokens) {
  model_.limits.max_context = 3;
  EXPECT_EQ(Completion(R"({"prompt": [1, 2, 3]})").requests.size(), 1u);
  ApiError error = ErrorFrom(&kCompletions, R"({"prompt": [1, 2, 3, 4]})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "prompt");
  EXPECT_THAT(error.message, HasSubstr("requested 4 tokens"));
  error = ErrorFrom(&kChatCompletions, R"({"messages": [{"role": "user"}, {"role": "user",
      "content": "a b c d"}]})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
}

TEST_F(ApiCallTest, Endpoints) {
  EXPECT_EQ(FindApi("/v1/chat/completions"), &kChatCompletions);
  EXPECT_EQ(FindApi("/v1/completions"), &kCompletions);
  EXPECT_EQ(FindApi("/v1/embeddings"), nullptr);
  EXPECT_EQ(FindApi(""), nullptr);
}

TEST_F(ApiCallTest, EchoRepeatsThePrompts) {
  EXPECT_TRUE(OpenAiContextIn(Completion(R"({"prompt": "a"})")).echoes.empty());
  const std::string body = R"({"prompt": ["Once", [)" + std::to_string(Tokens("upon")[0]) +
                           R"(]], "echo": true, "max_tokens": 0})";
  const ApiCall call = Completion(body);
  const std::vector<EchoedPrompt>& echoes = OpenAiContextIn(call).echoes;
  ASSERT_EQ(echoes.size(), 2u);
  EXPECT_EQ(echoes[0].text, "Once") << "as it was sent, without the begin token";
  EXPECT_EQ(echoes[0].n_added, 1u);
  EXPECT_EQ(echoes[1].text, *tokenizer_.Decode(std::vector<Token>{Tokens("upon")[0]}));
  EXPECT_EQ(echoes[1].n_added, 0u);
  EXPECT_EQ(call.requests[0].sampling.max_tokens, 0);
  EXPECT_EQ(call.requests[0].prompt_logprobs, std::nullopt);
}

TEST_F(ApiCallTest, AnEchoWithLogprobsHasThoseOfThePrompt) {
  EXPECT_EQ(
      Completion(R"({"prompt": "a", "echo": true, "logprobs": 3})").requests[0].prompt_logprobs, 3);
  EXPECT_EQ(Completion(R"({"prompt": "a", "logprobs": 3})").requests[0].prompt_logprobs,
            std::nullopt);
  EXPECT_EQ(Completion(R"({"prompt": "a", "echo": true, "logprobs": 3, "prompt_logprobs": 5})")
                .requests[0]
                .prompt_logprobs,
            5);
}

TEST_F(ApiCallTest, TheBestAnswersNeedLogprobs) {
  const ApiCall call = Completion(R"({"prompt": "a", "best_of": 3})");
  EXPECT_EQ(call.requests[0].n_choices, 3);
  EXPECT_EQ(call.requests[0].sampling.top_logprobs, 0);
  EXPECT_EQ(OpenAiContextIn(call).logprobs, std::nullopt) << "nobody asked to see them";
  EXPECT_EQ(OpenAiContextIn(call).n_told, 1);
}

// The work that a few bytes can ask for is bounded.
TEST_F(ApiCallTest, ManyLogprobsOfPromptsAreAnError) {
  model_.limits.max_prompt_logprobs = 100;
  const std::string body = R"({"prompt": [[5, 6, 7, 8], [5, 6, 7, 8]], "prompt_logprobs": )";
  EXPECT_TRUE(kCompletions.prepare(body + "11}", model_));
  const ApiError error = ErrorFrom(&kCompletions, body + "12}");
  EXPECT_EQ(error.param, "prompt_logprobs");
  EXPECT_EQ(error.message,
            "prompt_logprobs: expected at most 100 values for all prompts, found 104");
  EXPECT_EQ(ErrorFrom(&kChatCompletions, R"({"messages": [{"role": "user", "content": "Hi"}],
      "prompt_logprobs": 1, "tool_choice": "required",
      "tools": [{"type": "function", "function": {"name": "f"}}]})")
                .param,
            "prompt_logprobs");
}

TEST_F(ApiCallTest, SuffixesLeaveAGap) {
  const std::string expected =
      "<｜begin▁of▁sentence｜><｜fim▁begin｜>def f(<｜fim▁hole｜>): pass<｜fim▁end｜>";
  EXPECT_EQ(PromptText(Completion(R"({"prompt": "def f(", "suffix": "): pass"})").requests[0]),
            expected);
  EXPECT_EQ(PromptText(Completion(R"({"prompt": "<｜begin▁of▁sentence｜>def f(",
                                  "suffix": "): pass"})")
                           .requests[0]),
            expected);
  EXPECT_EQ(Completion(R"({"prompt": [7], "suffix": "x"})").requests[0].prompt[1], 7);
}

TEST_F(ApiCallTest, StopStringsActOnVisibleText) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}], "stop": "x")";
  const std::string tools = R"(, "tools": [{"type": "function", "function": {"name": "f"}}])";
  const auto sampling = [&](const std::string& fields) {
    return Chat(chat + fields + "}").requests[0].sampling;
  };
  EXPECT_EQ(sampling("").stop_strings_from, tokenizer_.Find("</think>"));
  EXPECT_EQ(sampling("").stop_strings_until, std::nullopt);
  EXPECT_EQ(sampling(tools).stop_strings_until, tokenizer_.Find("｜DSML｜"));
  EXPECT_EQ(sampling(R"(, "stop_in_reasoning": true)").stop_strings_from, std::nullopt);
  EXPECT_EQ(sampling(R"(, "reasoning_effort": "none")").stop_strings_from, std::nullopt);
  EXPECT_EQ(
      Completion(R"({"prompt": "<think>", "stop": "x"})").requests[0].sampling.stop_strings_from,
      std::nullopt);
}

TEST_F(ApiCallTest, ABudgetEndsTheReasoning) {
  const std::string hello = R"({"messages": [{"role": "user", "content": "Hi"}], )";
  const auto budget = [&](const Api* endpoint, const std::string& body) {
    const ApiResult<ApiCall> call = endpoint->prepare(body, model_);
    EXPECT_TRUE(call) << body << (call ? "" : call.error().message);
    if (!call || !call->requests[0].sampling.reasoning_budget) return std::int64_t{-1};
    EXPECT_EQ(call->requests[0].sampling.reasoning_budget->end, *tokenizer_.Find("</think>"));
    return call->requests[0].sampling.reasoning_budget->n_tokens;
  };
  for (const std::string key :
       {"thinking_token_budget", "thinking_budget_tokens", "thinking_budget", "reasoning_budget"}) {
    EXPECT_EQ(budget(&kChatCompletions, hello + "\"" + key + "\": 5}"), 5) << key;
    EXPECT_EQ(budget(&kResponses, R"({"input": "Hi", ")" + key + "\": 0}"), 0) << key;
  }
  const std::string thinking = R"("thinking": {"type": "enabled", "budget_tokens": 7}})";
  EXPECT_EQ(budget(&kChatCompletions, hello + thinking), 7);
  EXPECT_EQ(budget(&kMessages, hello + thinking), 7);
  EXPECT_EQ(budget(&kChatCompletions, hello + R"("reasoning": {"max_tokens": 9}})"), 9);
  EXPECT_EQ(budget(&kResponses, R"({"input": "Hi", "reasoning": {"max_tokens": 9}})"), 9);
  EXPECT_EQ(budget(&kChatCompletions, hello + R"("thinking_token_budget": 3, )" + thinking), 3);
  EXPECT_EQ(budget(&kChatCompletions, hello + R"("thinking_token_budget": -1})"), -1);
  EXPECT_EQ(
      budget(&kChatCompletions, hello + R"("thinking_token_budget": 3, "enable_thinking": false})"),
      -1)
      << "there is no reasoning";
  EXPECT_EQ(ErrorFrom(&kChatCompletions, hello + R"("thinking_token_budget": -2})").message,
            "thinking_token_budget: expected an integer of at least -1, found -2");
  EXPECT_EQ(
      ErrorFrom(&kMessages, hello + R"("thinking": {"type": "enabled", "budget_tokens": "x"}})")
          .param,
      "thinking.budget_tokens");
}

TEST_F(ApiCallTest, AnAnswerAtTheEndIsFollowedByAnother) {
  const std::string answered = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b")";
  const auto prompt = [&](const std::string& rest) {
    return PromptText(Chat(answered + rest).requests[0]);
  };
  const std::string before = "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜><think></think>b";
  EXPECT_EQ(prompt("}]}"), before + "<｜end▁of▁sentence｜><｜Assistant｜><think>");
  EXPECT_TRUE(Chat(answered + "}]}").answers.parser.starts_in_reasoning);
  const std::string chat = R"(}], "enable_thinking": false})";
  EXPECT_EQ(prompt(chat),
            "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜></think>b"
            "<｜end▁of▁sentence｜><｜Assistant｜></think>");
  EXPECT_EQ(prompt(R"(, "prefix": true}]})"), before);
  EXPECT_EQ(prompt(R"(}], "continue_final_message": true})"), before);
  EXPECT_EQ(prompt(R"(}], "add_generation_prompt": false})"), before + "<｜end▁of▁sentence｜>");
}

TEST_F(ApiCallTest, ReasoningIsContinuedUnlessTheClientRefuses) {
  const auto call = [&](const std::string& content, const std::string& fields) {
    return Chat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant",
        "reasoning_content": "so", "content": ")" +
                content + R"(", "prefix": true}])" + fields + "}");
  };
  const std::string before = "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜><think>so";
  const ApiCall continued = call("", "");
  EXPECT_EQ(PromptText(continued.requests[0]), before);
  EXPECT_TRUE(continued.answers.parser.starts_in_reasoning);
  const ApiCall ended = call("", R"(, "continue_reasoning": false)");
  EXPECT_EQ(PromptText(ended.requests[0]), before + "</think>");
  EXPECT_FALSE(ended.answers.parser.starts_in_reasoning);
  EXPECT_EQ(PromptText(call("b", "").requests[0]), before + "</think>b");
}

TEST_F(ApiCallTest, ToolsThatAreChosenMustBeThere) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}], "tool_choice": )";
  ApiError error = ErrorFrom(&kChatCompletions, chat + R"("required"})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "tool_choice");
  EXPECT_THAT(error.message, HasSubstr("expected tools where one is required, found none"));
  error = ErrorFrom(&kChatCompletions, chat + R"({"function": {"name": "g"}},
      "tools": [{"type": "function", "function": {"name": "f"}}]})");
  EXPECT_EQ(error.param, "tool_choice");
  EXPECT_THAT(error.message, HasSubstr("the name of one of the tools, found \"g\""));
}

}  // namespace
}  // namespace fathom::api
