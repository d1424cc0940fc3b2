#include "api/api_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/api/api_model.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class ApiCallTest : public testing::ApiModelTest {
 protected:
  ApiCall Prepare(Endpoint endpoint, const std::string& body) const {
    ApiResult<ApiCall> call = PrepareCall(endpoint, body, model_);
    EXPECT_TRUE(call) << body << ": " << (call ? "" : call.error().message);
    return call ? *std::move(call) : ApiCall();
  }
  ApiCall Chat(const std::string& body) const { return Prepare(Endpoint::kChatCompletions, body); }
  ApiCall Completion(const std::string& body) const {
    return Prepare(Endpoint::kCompletions, body);
  }
  ApiError ErrorOf(Endpoint endpoint, const std::string& body) const {
    const ApiResult<ApiCall> call = PrepareCall(endpoint, body, model_);
    EXPECT_FALSE(call) << body;
    return call ? ApiError() : call.error();
  }
  std::string TextOf(const Request& request) const { return *tokenizer_.Decode(request.prompt); }
};

TEST_F(ApiCallTest, ChatBecomesThePromptOfTheModel) {
  const ApiCall call = Chat(R"({"messages": [{"role": "user", "content": "Hi"}], "n": 3,
      "max_tokens": 5, "seed": 7, "priority": -9, "stop": "x", "stop_token_ids": [4]})");
  ASSERT_EQ(call.requests.size(), 1u);
  const Request& request = call.requests[0];
  EXPECT_EQ(TextOf(request), "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>");
  EXPECT_EQ(request.prompt, Tokens("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>"));
  EXPECT_EQ(request.n_choices, 3);
  EXPECT_EQ(request.priority, 9);
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_TRUE(call.answers.is_chat);
  EXPECT_TRUE(call.answers.starts_in_reasoning);
  EXPECT_EQ(call.answers.stop_strings, std::vector<std::string>{"x"});
  EXPECT_EQ(call.answers.stop_tokens, std::vector<Token>{4});
  EXPECT_EQ(call.model, "fairy") << "where the client names none";
}

TEST_F(ApiCallTest, WithoutThinkingTheAnswerIsContent) {
  const ApiCall call = Chat(R"({"model": "gpt-4o", "reasoning_effort": "none",
      "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(TextOf(call.requests[0]), "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_FALSE(call.answers.starts_in_reasoning);
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
  EXPECT_TRUE(Chat(messages + tools + "}").answers.tools.Knows("f"));
  EXPECT_TRUE(Chat(messages + tools + R"(, "tool_choice": "none"})").answers.tools.empty());
  EXPECT_TRUE(Chat(R"({"messages": [{"role": "system", "content": "", )" + tools +
                   R"(}, {"role": "user", "content": "Hi"}]})")
                  .answers.tools.Knows("f"));
}

TEST_F(ApiCallTest, CompletionsBeginWithTheBeginToken) {
  EXPECT_EQ(Completion(R"({"prompt": ""})").requests[0].prompt, std::vector<Token>{0});
  EXPECT_EQ(TextOf(Completion(R"({"prompt": "Once"})").requests[0]), "<｜begin▁of▁sentence｜>Once");
  EXPECT_EQ(Completion(R"({"prompt": "<｜begin▁of▁sentence｜>Once"})").requests[0].prompt,
            Completion(R"({"prompt": "Once"})").requests[0].prompt);
  EXPECT_EQ(TextOf(Completion(R"({"prompt": "Once", "add_special_tokens": false})").requests[0]),
            "Once");
  EXPECT_EQ(Completion(R"({"prompt": [7, 8]})").requests[0].prompt, (std::vector<Token>{7, 8}));
  const ApiCall call = Completion(R"({"prompt": ["a", "b", [5]], "n": 2})");
  ASSERT_EQ(call.requests.size(), 3u);
  EXPECT_EQ(call.requests[2].n_choices, 2);
  EXPECT_FALSE(call.answers.is_chat);
}

TEST_F(ApiCallTest, Errors) {
  const Endpoint chat = Endpoint::kChatCompletions;
  const Endpoint completions = Endpoint::kCompletions;
  ApiError error = ErrorOf(chat, R"({"messages": [{"role": "bard", "content": ""}]})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "messages[0].role");
  error = ErrorOf(chat, R"({"messages": [{"role": "user"}], "reasoning_effort": "enormous"})");
  EXPECT_EQ(error.param, "reasoning_effort");
  EXPECT_THAT(error.message, HasSubstr("expected one of none, minimal, low"));
  error = ErrorOf(chat, "{");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "");
  error = ErrorOf(completions, R"({"prompt": "", "add_special_tokens": false})");
  EXPECT_EQ(error.param, "prompt");
  error = ErrorOf(completions, R"({"prompt": "a", "min_tokens": -1})");
  EXPECT_EQ(error.param, "min_tokens");
}

TEST_F(ApiCallTest, TooLongPromptsAreToldInTokens) {
  model_.limits.max_context = 3;
  EXPECT_EQ(Completion(R"({"prompt": [1, 2, 3]})").requests.size(), 1u);
  ApiError error = ErrorOf(Endpoint::kCompletions, R"({"prompt": [1, 2, 3, 4]})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "prompt");
  EXPECT_THAT(error.message, HasSubstr("requested 4 tokens"));
  error = ErrorOf(Endpoint::kChatCompletions, R"({"messages": [{"role": "user"}, {"role": "user",
      "content": "a b c d"}]})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
}

TEST_F(ApiCallTest, Endpoints) {
  EXPECT_EQ(FindEndpoint("/v1/chat/completions"), Endpoint::kChatCompletions);
  EXPECT_EQ(FindEndpoint("/v1/completions"), Endpoint::kCompletions);
  EXPECT_EQ(FindEndpoint("/v1/embeddings"), std::nullopt);
  EXPECT_EQ(FindEndpoint(""), std::nullopt);
}

// A case of the encoder's golden data as a client would send it; nullopt if no request says it.
std::optional<Json> AsRequest(const Json& golden) {
  for (const Json& message : golden["messages"]) {
    if (message["role"] == "developer") return std::nullopt;  // clients mean another role
  }
  if (!golden["context"].is_null() && !golden["context"].empty()) return std::nullopt;
  if (!golden["add_bos"].get<bool>()) return std::nullopt;
  Json body = {
      {"messages", golden["messages"]},
      {"thinking", {{"type", golden["thinking_mode"] == "thinking" ? "enabled" : "disabled"}}},
      {"chat_template_kwargs", {{"drop_thinking", golden["drop_thinking"]}}}};
  if (!golden["reasoning_effort"].is_null()) {
    body["reasoning_effort"] = golden["reasoning_effort"];
  }
  return body;
}

TEST_F(ApiCallTest, GoldenPrompts) {
  const auto path = testing::SharedData("data/encoding/extra/encode_cases.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  model_.limits.max_context = 100000;
  int n_compared = 0;
  for (const Json& golden : Json::parse(testing::ReadFile(*path), nullptr, false)) {
    const std::optional<Json> body = AsRequest(golden);
    if (!body) continue;
    SCOPED_TRACE(golden["name"].get<std::string>());
    model_.profile = *FindProfile(golden["profile"].get<std::string>());
    const ApiResult<ApiCall> call = PrepareCall(Endpoint::kChatCompletions, body->dump(), model_);
    ASSERT_TRUE(call) << call.error().message;
    EXPECT_EQ(TextOf(call->requests[0]), golden["expected"].get<std::string>());
    ++n_compared;
  }
  EXPECT_GT(n_compared, 40);
}

}  // namespace
}  // namespace fathom
