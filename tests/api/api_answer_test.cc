
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "api/common/api.h"
#include "api/openai/openai_api.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
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
  ASSERT_EQ(logprobs["tokens"].size(), n_tokens + 1) << "the end token has no text, but an entry";
  EXPECT_EQ(logprobs["tokens"].back(), tokenizer_.TokenToText(1));
  EXPECT_EQ(logprobs["token_logprobs"].size(), n_tokens + 1);
  EXPECT_EQ(logprobs["top_logprobs"][0].size(), 2u) << "the best and the chosen one";
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  EXPECT_EQ(logprobs["text_offset"].back(), 5) << "characters, not bytes";
}

// The tokens of a prompt behind the first, with these log probabilities, beside the best token.
std::shared_ptr<std::vector<TokenLogprobs>> Scores(std::span<const Token> prompt) {
  auto scores = std::make_shared<std::vector<TokenLogprobs>>();
  for (const Token token : prompt.subspan(1)) {
    scores->push_back(
        {.chosen = {.token = token, .logprob = -2.0f},
         .rank = 7,
         .top = {{.token = 300, .logprob = -0.5f}, {.token = 301, .logprob = -1.0f}}});
  }
  return scores;
}

std::vector<StreamEvent> Scored(std::vector<StreamEvent> events, float logprob) {
  for (StreamEvent& event : events) {
    event.logprobs = TokenLogprobs{.chosen = {.token = event.token, .logprob = logprob}, .top = {}};
  }
  return events;
}

TEST_F(ApiAnswerTest, AnEchoWithLogprobsScoresThePrompt) {
  const std::vector<Token> text = Tokens("Hé so");
  for (const bool with_answer : {false, true}) {
    const std::string body = std::string(R"({"prompt": "Hé so", "echo": true, "logprobs": 1, )") +
                             R"("max_tokens": )" + (with_answer ? "2}" : "0}");
    call_ = *kCompletions.prepare(body, model_);
    const std::vector<Token> prompt = call_.requests[0].prompt;
    ASSERT_EQ(prompt.size(), text.size() + 1) << "the begin token is in front";
    StreamEvent nothing = {.finish = FinishReason::kLength};
    const auto events = with_answer ? Scored({{.token = 1, .finish = FinishReason::kStop}}, -3)
                                    : std::vector<StreamEvent>{nothing};
    const testing::ToldAnswer told =
        testing::Tell(call_, model_, events,
                      {.prompt_tokens = std::ssize(prompt), .prompt_logprobs = Scores(prompt)});
    const Json choice = told.whole["choices"][0];
    EXPECT_EQ(choice["text"], "Hé so");
    EXPECT_FALSE(choice.contains("prompt_logprobs")) << "asked for by echo alone";
    const Json logprobs = choice["logprobs"];
    const std::size_t n = text.size() + (with_answer ? 1 : 0);
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      EXPECT_EQ(logprobs[list].size(), n) << list;
    }
    EXPECT_EQ(logprobs["tokens"][0], tokenizer_.TokenToText(text[0])) << "no begin token";
    EXPECT_EQ(logprobs["token_logprobs"][0], nullptr);
    EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
    EXPECT_EQ(logprobs["token_logprobs"][1], -2.0);
    EXPECT_EQ(logprobs["top_logprobs"][1].size(), 2u) << "the best and the prompt's own";
    EXPECT_EQ(logprobs["top_logprobs"][1][tokenizer_.TokenToText(300)], -0.5);
    if (with_answer) {
      EXPECT_EQ(logprobs["token_logprobs"][n - 1], -3.0);
      EXPECT_EQ(logprobs["text_offset"][n - 1], 5);
    }
  }
}

TEST_F(ApiAnswerTest, LogprobsOfAPromptAsInVllm) {
  const auto check = [&](const ApiCall& call, const Json& list) {
    const std::vector<Token>& prompt = call.requests[0].prompt;
    ASSERT_EQ(list.size(), prompt.size());
    EXPECT_EQ(list[0], nullptr);
    EXPECT_EQ(list[1].size(), 2u) << "itself and the best";
    const Json own = list[1][std::to_string(prompt[1])];
    EXPECT_EQ(own["logprob"], -2.0);
    EXPECT_EQ(own["rank"], 7);
    EXPECT_EQ(own["decoded_token"], tokenizer_.TokenToText(prompt[1]));
    EXPECT_EQ(list[1]["300"]["rank"], 1);
  };
  const std::vector<StreamEvent> events = Events("Once", FinishReason::kStop);
  const ApiCall completion =
      *kCompletions.prepare(R"({"prompt": "Hé so", "prompt_logprobs": 1})", model_);
  const ApiCall chat = *kChatCompletions.prepare(
      R"({"messages": [{"role": "user", "content": "Hi"}], "prompt_logprobs": 1})", model_);
  check(completion, testing::Tell(completion, model_, events,
                                  {.prompt_logprobs = Scores(completion.requests[0].prompt)})
                        .whole["choices"][0]["prompt_logprobs"]);
  check(chat,
        testing::Tell(chat, model_, events, {.prompt_logprobs = Scores(chat.requests[0].prompt)})
            .whole["prompt_logprobs"]);
}

TEST_F(ApiAnswerTest, TheMostProbableAnswersAreTold) {
  const ApiReply reply = Reply(R"({"prompt": ["a", "b"], "n": 2, "best_of": 3})", &kCompletions,
                               {Scored(Events("low", FinishReason::kStop), -3),
                                Scored(Events("best of all", FinishReason::kStop), -1),
                                Scored(Events("next", FinishReason::kStop), -2)});
  const Json body = Json::parse(reply.body, nullptr, false);
  ASSERT_EQ(body["choices"].size(), 4u);
  const char* expected[] = {"best of all", "next", "best of all", "next"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], expected[i]);
    EXPECT_EQ(body["choices"][i]["logprobs"], nullptr) << "not asked for";
  }
  const std::size_t n_generated =
      Tokens("low").size() + Tokens("best of all").size() + Tokens("next").size() + 3;
  EXPECT_EQ(body["usage"]["completion_tokens"], 2 * n_generated) << "all were generated";
}

TEST_F(ApiAnswerTest, TokenIdsOfPromptsAndAnswers) {
  const std::vector<StreamEvent> events = Events("So</think>Hi 😀", FinishReason::kStop);
  std::vector<Token> generated = Tokens("So</think>Hi 😀");
  generated.push_back(1);
  const auto check = [&](const Api& api, const std::string& body) {
    const ApiCall call = *api.prepare(body, model_);
    const testing::ToldAnswer told = testing::Tell(call, model_, events);
    const Json& whole = told.whole;
    const bool is_chat = &api == &kChatCompletions;
    EXPECT_EQ((is_chat ? whole : whole["choices"][0])["prompt_token_ids"],
              Json(call.requests[0].prompt));
    EXPECT_EQ(whole["choices"][0]["token_ids"], Json(generated));
    std::vector<Token> streamed;
    int n_prompts = 0;
    for (const Json& chunk : testing::Chunks(told.stream)) {
      const Json& choice = chunk["choices"][0];
      n_prompts += (is_chat ? chunk : choice).contains("prompt_token_ids") ? 1 : 0;
      for (const Json& token : choice.value("token_ids", Json::array())) {
        streamed.push_back(token.get<Token>());
      }
    }
    EXPECT_EQ(n_prompts, 1);
    EXPECT_EQ(streamed, generated);
  };
  check(kChatCompletions,
        R"({"messages": [{"role": "user", "content": "Hi"}], "return_token_ids": true})");
  check(kCompletions, R"({"prompt": "Hi", "return_token_ids": true})");
}

TEST_F(ApiAnswerTest, TokensNamedById) {
  const ApiCall call = *kCompletions.prepare(
      R"({"prompt": "a", "logprobs": 0, "return_tokens_as_token_ids": true})", model_);
  const Json whole =
      testing::Tell(call, model_, Scored(Events("Hi", FinishReason::kStop), -1)).whole;
  EXPECT_EQ(whole["choices"][0]["logprobs"]["tokens"][0],
            "token_id:" + std::to_string(Tokens("Hi")[0]));
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
}  // namespace fathom::api
