
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

class ApiAnswerTest : public testing::ApiModelTest {
 protected:
  // Feeds request 0, choice by choice, and every other request the same.
  ApiReply Reply(const std::string& body, const Api* endpoint,
                 const std::vector<std::vector<StreamEvent>>& choices) {
    call_ = *endpoint->prepare(body, model_);
    ApiAnswer answer(call_, model_, 1700000000, testing::CountingBits());
    for (std::size_t request = 0; request < call_.requests.size(); ++request) {
      std::int64_t generated_tokens = 0;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        for (StreamEvent event : choices[i]) {
          event.choice = static_cast<std::uint32_t>(i);
          generated_tokens += event.token == StreamEvent::kNoToken ? 0 : 1;
          answer.Add(request, event);
        }
      }
      answer.End(request,
                 {.prompt_tokens = static_cast<std::int64_t>(call_.requests[request].prompt.size()),
                  .cached_tokens = 2,
                  .generated_tokens = generated_tokens});
    }
    return WholeReply(answer);
  }

  ApiCall call_;
};

// The shape of a response, byte for byte: clients and their tests depend on every key.
TEST_F(ApiAnswerTest, ChatCompletion) {
  const ApiReply reply =
      Reply(R"({"messages": [{"role": "user", "content": "Hi"}], "model": "m"})", &kChatCompletions,
            {Events("So.</think>\"Once\" 😀", FinishReason::kStop)});
  EXPECT_EQ(reply.status, 200);
  const std::size_t n_reasoning = Tokens("So.").size();
  const std::size_t n_all = Tokens("So.</think>\"Once\" 😀").size() + 1;
  const std::size_t n_prompt = call_.requests[0].prompt.size();
  Json body = Json::parse(reply.body, nullptr, false);
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["id"].get<std::string>().size(), 9u + 24u);
  body["id"] = "ID";
  EXPECT_EQ(body.dump(),
            R"({"id":"ID","object":"chat.completion","created":1700000000,"model":"m",)"
            R"("system_fingerprint":"fp_test","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"\"Once\" 😀","refusal":null,"reasoning_content":"So.",)"
            R"("reasoning":"So."},"logprobs":null,"finish_reason":"stop","stop_reason":null}],)"
            R"("usage":{"prompt_tokens":)" +
                std::to_string(n_prompt) + R"(,"completion_tokens":)" + std::to_string(n_all) +
                R"(,"total_tokens":)" + std::to_string(n_prompt + n_all) +
                R"(,"prompt_tokens_details":{"cached_tokens":2},)"
                R"("completion_tokens_details":{"reasoning_tokens":)" +
                std::to_string(n_reasoning) +
                R"(},"prompt_cache_hit_tokens":2,"prompt_cache_miss_tokens":)" +
                std::to_string(n_prompt - 2) + "}}");
}

TEST_F(ApiAnswerTest, ToolCalls) {
  const ApiReply reply = Reply(
      R"({"messages": [{"role": "user", "content": "Hi"}], "include_reasoning": false,
          "tools": [{"type": "function", "function": {"name": "f"}}]})",
      &kChatCompletions,
      {Events("r</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
              "<｜DSML｜parameter name=\"a\" string=\"false\">[1]</｜DSML｜parameter>\n"
              "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
              FinishReason::kStop)});
  Json choice = Json::parse(reply.body, nullptr, false)["choices"][0];
  std::string id = choice["message"]["tool_calls"][0]["id"].get<std::string>();
  EXPECT_TRUE(id.starts_with("call_"));
  choice["message"]["tool_calls"][0]["id"] = "ID";
  EXPECT_EQ(choice.dump(),
            R"({"index":0,"message":{"role":"assistant","content":null,"refusal":null,)"
            R"("tool_calls":[{"id":"ID","type":"function","function":{"name":"f",)"
            R"("arguments":"{\"a\": [1]}"}}]},"logprobs":null,"finish_reason":"tool_calls",)"
            R"("stop_reason":null})");
}

TEST_F(ApiAnswerTest, Completion) {
  const ApiReply reply = Reply(
      R"({"prompt": ["a", "b"], "n": 2, "stop": ["x"]})", &kCompletions,
      {{{.token = 5, .text = "one", .finish = FinishReason::kLength}},
       {{.token = 6, .text = "<think>", .finish = FinishReason::kStopString, .stop_string = 0}}});
  Json body = Json::parse(reply.body, nullptr, false);
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "fairy");
  ASSERT_EQ(body["choices"].size(), 4u) << "two prompts, two choices each";
  EXPECT_EQ(body["choices"][2].dump(),
            R"({"index":2,"text":"one","logprobs":null,"finish_reason":"length",)"
            R"("stop_reason":null})");
  EXPECT_EQ(body["choices"][3].dump(),
            R"({"index":3,"text":"<think>","logprobs":null,"finish_reason":"stop",)"
            R"("stop_reason":"x"})");
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST_F(ApiAnswerTest, CompletionWithItsPrompt) {
  const ApiReply reply =
      Reply(R"({"prompt": ["a ", "b "], "echo": true, "max_tokens": 0})", &kCompletions,
            {{{.token = 5, .text = "one", .finish = FinishReason::kLength}}});
  const Json body = Json::parse(reply.body, nullptr, false);
  EXPECT_EQ(body["choices"][0]["text"], "a one");
  EXPECT_EQ(body["choices"][1]["text"], "b one");
}

TEST_F(ApiAnswerTest, LogprobsOfAChat) {
  std::vector<StreamEvent> events = Events("So</think>Hi", FinishReason::kStop);
  for (StreamEvent& event : events) {
    event.logprobs =
        TokenLogprobs{.chosen = {.token = event.token, .logprob = -0.5f},
                      .top = {{.token = event.token, .logprob = -0.5f},
                              {.token = 7, .logprob = -std::numeric_limits<float>::infinity()}}};
  }
  const ApiReply reply = Reply(
      R"({"messages": [{"role": "user", "content": "Hi"}], "logprobs": true, "top_logprobs": 2})",
      &kChatCompletions, {events});
  const Json logprobs = Json::parse(reply.body, nullptr, false)["choices"][0]["logprobs"];
  const auto joined = [](const Json& entries) {
    std::string text;
    for (const Json& entry : entries) {
      for (const Json& byte : entry["bytes"]) text.push_back(static_cast<char>(byte.get<int>()));
    }
    return text;
  };
  EXPECT_EQ(joined(logprobs["content"]), "Hi") << "no marker, no end token";
  EXPECT_EQ(joined(logprobs["reasoning_content"]), "So");
  const Json& entry = logprobs["content"][0];
  EXPECT_EQ(entry["logprob"], -0.5);
  ASSERT_EQ(entry["top_logprobs"].size(), 2u);
  EXPECT_EQ(entry["top_logprobs"][1]["logprob"], -9999.0) << "JSON has no infinity";
  EXPECT_EQ(entry["top_logprobs"][1]["token"], tokenizer_.TokenToText(7));
}

TEST_F(ApiAnswerTest, LogprobsOfACompletion) {
  std::vector<StreamEvent> events = Events("Hé so", FinishReason::kStop);
  for (StreamEvent& event : events) {
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = -1.0f},
                                   .top = {{.token = 300, .logprob = -0.25f}}};
  }
  const ApiReply reply = Reply(R"({"prompt": "a", "logprobs": 1})", &kCompletions, {events});
  const Json logprobs = Json::parse(reply.body, nullptr, false)["choices"][0]["logprobs"];
  const std::size_t n_tokens = Tokens("Hé so").size();
  ASSERT_EQ(logprobs["tokens"].size(), n_tokens) << "the end token is none of the text";
  EXPECT_EQ(logprobs["token_logprobs"].size(), n_tokens);
  EXPECT_EQ(logprobs["top_logprobs"][0].size(), 2u) << "the best and the chosen one";
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  EXPECT_LT(logprobs["text_offset"].back().get<int>(), 5) << "characters, not bytes";
}

TEST_F(ApiAnswerTest, AnErrorOfOneChoiceIsTheErrorOfTheCall) {
  const ApiReply reply =
      Reply(R"({"prompt": "a", "n": 2})", &kCompletions,
            {{{.token = 5, .text = "one", .finish = FinishReason::kLength}},
             {{.finish = FinishReason::kError, .error = Error{ErrorCode::kIo, "NaN"}}}});
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.body, R"({"error":{"message":"NaN","type":"server_error","param":null,)"
                        R"("code":"server_error"}})");
}

}  // namespace
}  // namespace fathom
