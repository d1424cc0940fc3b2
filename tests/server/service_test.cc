// Paths, answers and the log, without sockets.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/responses/response_store.h"
#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServiceTest, EveryPathAnswers) {
  for (const char* path : {"/",          "/openapi.json", "/health",          "/ping",
                           "/v1/health", "/health/live",  "/version",         "/metrics",
                           "/load",      "/ready",        "/readyz",          "/healthz",
                           "/livez",     "/props",        "/get_model_info",  "/model_info",
                           "/v1/models", "/models",       "/v1/models/fairy", "/v1/models/a%2Fb"}) {
    EXPECT_EQ(Ask("GET", path).head.status, 200) << path;
    EXPECT_EQ(Ask("HEAD", path).head.status, 200) << path;
    const FakeExchange wrong = Ask("PUT", path);
    EXPECT_EQ(wrong.head.status, 405) << path;
    EXPECT_EQ(wrong.Field("Allow"), "GET, HEAD, OPTIONS") << path;
  }
  for (const char* path : {"/v1/chat/completions", "/chat/completions"}) {
    EXPECT_EQ(Ask("POST", path, kChat).head.status, 200) << path;
    EXPECT_EQ(Ask("GET", path).head.status, 405) << path;
  }
  for (const char* path :
       {"/v1/completions", "/completions", "/beta/completions", "/tokenize", "/v1/tokenize"}) {
    EXPECT_EQ(Ask("POST", path, R"({"prompt": "Hi"})").head.status, 200) << path;
  }
  for (const char* path : {"/v1/messages", "/anthropic/v1/messages", "/v1/messages/count_tokens",
                           "/anthropic/v1/messages/count_tokens"}) {
    EXPECT_EQ(Ask("POST", path, kChat).head.status, 200) << path;
  }
  for (const char* path : {"/v1/responses", "/responses"}) {
    EXPECT_EQ(Ask("POST", path, R"({"input": "Hi"})").head.status, 200) << path;
  }
  EXPECT_EQ(Ask("POST", "/v1/detokenize", R"({"tokens": [1]})").head.status, 200);
  EXPECT_EQ(Ask("POST", "/apply-template", kChat).head.status, 200);
  for (const char* path : {"/v1", "/v1/embeddings", "//", "/v1/models/", "/../etc/passwd"}) {
    const FakeExchange none = Ask("GET", path);
    EXPECT_EQ(none.head.status, 404) << path;
    EXPECT_TRUE(ReadJson(none)["error"]["message"].is_string());
  }
}

TEST_F(ServiceTest, TheOpenApiDocumentIsMadeOnce) {
  const std::string document = Ask("GET", "/openapi.json").text;
  EXPECT_THAT(document, HasSubstr(R"("maximum":)"));
  model_.limits.max_choices += 1;
  EXPECT_EQ(Ask("GET", "/openapi.json").text, document);
}

TEST_F(ServiceTest, TurnsThatCameBackAreReplayed) {
  GeneratedTurnStore turns(ReplayScope::kNamed, GeneratedTurnStore::kDefaultBytes, CountingBits());
  model_.turns = &turns;
  answer_ =
      ScriptedAnswer{.text =
                         "So.</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n"
                         "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"};
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}};
  const FakeExchange first = Ask("POST", "/v1/chat/completions", body.dump());
  EXPECT_EQ(first.Field("X-Exact-Replay"), "");
  Json message = ReadJson(first)["choices"][0]["message"];
  ASSERT_TRUE(message["tool_calls"].is_array()) << first.text;
  message.erase("reasoning");
  message.erase("reasoning_content");
  const Json id = message["tool_calls"][0]["id"];
  body["messages"].push_back(message);
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "x"}});
  for (const bool streams : {false, true}) {
    body["stream"] = streams;
    const FakeExchange second = Ask("POST", "/v1/chat/completions", body.dump());
    EXPECT_EQ(second.Field("X-Exact-Replay"), "1");
    EXPECT_EQ(records_.back().n_replayed, 1u);
  }
  EXPECT_THAT(Ask("GET", "/metrics").text, HasSubstr("fathom_exact_replay_hits_total 2\n"));
  const FakeExchange tokens = Ask("POST", "/tokenize", body.dump());
  EXPECT_EQ(ReadJson(tokens)["count"], records_[1].usage.prompt_tokens) << "of the same prompt";
}

TEST_F(ServiceTest, RoutesOfResponses) {
  ResponseStore store;
  model_.responses = &store;
  const std::string id = ReadJson(Ask("POST", "/v1/responses", R"({"input": "Hi"})"))["id"];
  const std::string path = "/v1/responses/" + id;
  FakeExchange stream;
  service().Handle({.method = "GET", .path = path, .query = "stream=true"}, stream);
  EXPECT_THAT(stream.head.content_type, HasSubstr("text/event-stream"));
  EXPECT_THAT(stream.text, HasSubstr("event: response.completed\n"));
  EXPECT_EQ(ReadJson(Ask("GET", path + "/input_items"))["data"].size(), 1u);
  EXPECT_EQ(Ask("POST", "/v1/responses/input_tokens", R"({"input": "Hi"})").head.status, 200);
  EXPECT_EQ(Ask("GET", "/v1/responses/input_tokens").Field("Allow"), "POST, OPTIONS")
      << "no response has this id";
  EXPECT_EQ(Ask("POST", "/v1/responses/compact", "{}").head.status, 404);
  EXPECT_EQ(Ask("GET", path + "/output_items").head.status, 404);
}

TEST_F(ServiceTest, ErrorsHaveTheFormOfTheApi) {
  const Json openai = ReadJson(Ask("POST", "/v1/chat/completions", "{"));
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  const Json anthropic = ReadJson(Ask("POST", "/v1/messages", "{"));
  EXPECT_EQ(anthropic["type"], "error");
  const Json by_field = ReadJson(Ask("GET", "/v1/x", "", {{"anthropic-version", "1"}}));
  EXPECT_EQ(by_field["type"], "error");
}

TEST_F(ServiceTest, ARequestThatIsAbortedEnds) {
  options_.access.admin_keys = {"root"};
  answer_->delay = std::chrono::milliseconds(20);
  answer_->text = "</think>" + std::string(4000, 'x');
  const HttpFields root = {{"x-api-key", "root"}};
  const char* two = R"({"n": 2, "messages": [{"role": "user", "content": "Hi"}]})";
  for (const char* body : {kStream, two}) {
    service();
    FakeExchange exchange;
    std::thread client([&] {
      Ask("POST", "/v1/chat/completions", body, {{"X-Request-Id", "mine"}}, exchange);
    });
    Json slots = Json::array();
    while (slots.empty() || slots[0]["output_tokens"] < 2) {
      slots = ReadJson(Ask("GET", "/slots", "", root));
    }
    EXPECT_EQ(slots.size(), 1u);
    EXPECT_EQ(slots[0]["id"], "mine");
    EXPECT_EQ(slots[0]["path"], "/v1/chat/completions");
    EXPECT_GT(slots[0]["prompt_tokens"], 0);
    EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "mine"})", root).text,
              R"({"request_id":"mine","aborted":1})");
    client.join();
    EXPECT_THAT(exchange.text, HasSubstr(R"("code":"aborted")"));
    EXPECT_EQ(exchange.head.status, exchange.is_stream ? 200 : 403);
    EXPECT_FALSE(exchange.may_be_slow);
    EXPECT_EQ(Ask("GET", "/slots", "", root).text, "[]");
  }
  EXPECT_EQ(runner_.cancelled(), 2);
}

TEST_F(ServiceTest, AStreamOfMessagesThatIsAbortedEndsWithAnError) {
  options_.access.admin_keys = {"root"};
  answer_->delay = std::chrono::milliseconds(20);
  answer_->text = "</think>" + std::string(4000, 'x');
  const HttpFields root = {{"x-api-key", "root"}};
  service();
  FakeExchange exchange;
  std::thread client([&] {
    Ask("POST", "/v1/messages", kStream, {{"X-Request-Id", "mine"}}, exchange);
  });
  Json slots = Json::array();
  while (slots.empty() || slots[0]["output_tokens"] < 2) {
    slots = ReadJson(Ask("GET", "/slots", "", root));
  }
  Ask("POST", "/abort", R"({"request_id": "mine"})", root);
  client.join();
  EXPECT_EQ(exchange.head.status, 200);
  const std::size_t at = exchange.text.find("event: error\ndata: ");
  ASSERT_NE(at, std::string::npos) << exchange.text;
  const std::string data = exchange.text.substr(exchange.text.find('{', at));
  EXPECT_EQ(data.find("\n\n"), data.size() - 2) << "nothing follows the error";
  const Json event = Json::parse(data, nullptr, false);
  EXPECT_EQ(event["type"], "error");
  EXPECT_THAT(event["error"]["message"].get<std::string>(), HasSubstr("abort"));
  EXPECT_THAT(exchange.text, Not(HasSubstr("message_stop")));
}

// Anthropic's packages look for the id there.
TEST_F(ServiceTest, TheIdOfARequestInAnthropicsForm) {
  const FakeExchange refused = Ask("POST", "/v1/messages", "{", {{"X-Request-Id", "mine"}});
  EXPECT_EQ(refused.Field("request-id"), "mine");
  EXPECT_EQ(refused.Field("X-Request-Id"), "mine");
  EXPECT_EQ(ReadJson(refused)["request_id"], "mine");
  const FakeExchange answered = Ask("POST", "/anthropic/v1/messages", kChat);
  EXPECT_EQ(answered.head.status, 200);
  EXPECT_EQ(answered.Field("request-id"), answered.Field("X-Request-Id"));
  EXPECT_FALSE(answered.Field("request-id").empty());
  answer_->finish = FinishReason::kError;
  answer_->error = Error{ErrorCode::kIo, "NaN"};
  const FakeExchange failed = Ask("POST", "/v1/messages", kStream, {{"X-Request-Id", "this"}});
  EXPECT_THAT(failed.text, HasSubstr(R"("request_id":"this")")) << "in the stream";
  const FakeExchange openai = Ask("POST", "/v1/chat/completions", "{");
  EXPECT_EQ(openai.Field("request-id"), "");
  EXPECT_FALSE(ReadJson(openai).contains("request_id"));
}

TEST_F(ServiceTest, NothingRunsInTheBackgroundToBeCancelled) {
  ResponseStore store;
  model_.responses = &store;
  const Json made = ReadJson(Ask("POST", "/v1/responses", R"({"input": "Hi"})"));
  const std::string path = "/v1/responses/" + made["id"].get<std::string>();
  EXPECT_EQ(Ask("GET", path).head.status, 200);
  const FakeExchange refused = Ask("POST", path + "/cancel");
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_EQ(ReadJson(refused)["error"]["message"], "Cannot cancel a synchronous response.");
  EXPECT_EQ(ReadJson(refused)["error"]["type"], "invalid_request_error");
  EXPECT_EQ(Ask("POST", "/v1/responses/resp_0/cancel").head.status, 404);
  EXPECT_EQ(Ask("POST", "/v1/responses//cancel").head.status, 404);
  EXPECT_EQ(Ask("GET", path + "/cancel").Field("Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("POST", path).Field("Allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(Ask("DELETE", path).head.status, 200);
  EXPECT_EQ(Ask("POST", path + "/cancel").head.status, 404);
}

TEST_F(ServiceTest, AnswersThatATurnTokenEndsAreCounted) {
  answer_->text = "So.</think>Hello.<｜User｜>And now?";
  const Json chat = ReadJson(Ask("POST", "/v1/chat/completions", kChat))["choices"][0];
  EXPECT_EQ(chat["message"]["content"], "Hello.");
  EXPECT_EQ(chat["finish_reason"], "stop");
  EXPECT_EQ(records_.back().turn_stops, 1);
  EXPECT_EQ(ReadJson(Ask("POST", "/v1/messages", kChat))["stop_reason"], "end_turn");
  EXPECT_THAT(Ask("POST", "/v1/completions", R"({"prompt": "Hi"})").text, HasSubstr("<｜User｜>"));
  EXPECT_THAT(Ask("GET", "/metrics").text, HasSubstr("fathom_turn_token_stops_total 2"));
}

TEST_F(ServiceTest, ControlTokensAreNoText) {
  answer_->text = "So<｜fim▁hole｜>.</think>Hel<｜end▁of▁sentence｜>lo<｜Assistant｜>.";
  const Json chat = ReadJson(Ask("POST", "/v1/chat/completions",
                                 R"({"ignore_eos": true, "messages": [{"role": "user",
                                   "content": "Hi"}]})"))["choices"][0];
  EXPECT_EQ(chat["message"]["content"], "Hello.");
  EXPECT_EQ(chat["message"]["reasoning_content"], "So.");
}

TEST_F(ServiceTest, LongNamesAreShortenedInErrors) {
  options_.strict_model_names = true;
  options_.access.admin_keys = {"root"};
  const std::string name(50'000, 'n');
  ResponseStore store;
  store.Put({.id = "resp_1", .json = "{}", .items = {}});
  model_.responses = &store;
  Json chat = Json::parse(kChat);
  chat["model"] = name;
  Json tool = Json::parse(kChat);
  tool["max_tokens"] = 1;
  tool["tools"] = {{{"type", "web_" + name}}};
  Json effort = Json::parse(kChat);
  effort["reasoning_effort"] = name;
  Json item = {{"input", {{{"type", "item_reference"}, {"id", name}}}}};
  Json part = {{"messages", {{{"role", "user"}, {"content", {{{"type", name}}}}}}}};
  const HttpFields root = {{"x-api-key", "root"}};
  for (const FakeExchange& refused :
       {Ask("POST", "/v1/chat/completions", chat.dump()),
        Ask("POST", "/v1/chat/completions", effort.dump()),
        Ask("POST", "/v1/chat/completions", part.dump()), Ask("POST", "/v1/responses", item.dump()),
        Ask("POST", "/v1/messages", tool.dump()), Ask("GET", "/v1/responses/" + name),
        Ask("DELETE", "/v1/responses/" + name),
        AskWithQuery("/v1/responses/resp_1/input_items", "after=" + name),
        Ask("POST", "/v1/responses", Json{{"input", "Hi"}, {"previous_response_id", name}}.dump()),
        Ask("POST", "/abort", Json{{"request_id", name}}.dump(), root), Ask("GET", "/" + name),
        Ask(name, "/v1/models"), Ask("GET", "/v1/models", "", {{"Host", name}}),
        Ask("POST", "/tokenize", "{}", {{"Origin", name}}),
        Ask("POST", "/tokenize", "{}", {{"Content-Type", name}}),
        Ask("POST", "/tokenize", "{}", {{"Content-Encoding", name}})}) {
    EXPECT_GE(refused.head.status, 400);
    EXPECT_LT(refused.text.size(), 400u) << refused.text.substr(0, 400);
    EXPECT_LT(records_.back().path.size(), 200u);
    EXPECT_LT(records_.back().method.size(), 200u);
  }
}

TEST_F(ServiceTest, BeforeTheModelIsThere) {
  has_model_ = false;
  service().SetLoadProgress(0.25);
  const FakeExchange health = Ask("GET", "/health");
  EXPECT_EQ(health.head.status, 503);
  EXPECT_EQ(health.text, R"({"status":"loading","progress":0.25})");
  EXPECT_EQ(Ask("GET", "/health/live").head.status, 200);
  EXPECT_EQ(Ask("GET", "/metrics").head.status, 200);
  const FakeExchange chat = Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(chat.head.status, 503);
  EXPECT_EQ(chat.Field("Retry-After"), "1");
  EXPECT_THAT(chat.text, HasSubstr("25 %"));
  EXPECT_EQ(Ask("GET", "/v1/models").head.status, 503);
}

TEST_F(ServiceTest, WhileTheDiskFails) {
  const auto fail = [this](std::chrono::seconds ago) {
    metrics_.SetStreaming(
        {.failed_reads = 3, .third_last_failure = std::chrono::steady_clock::now() - ago});
    return Ask("GET", "/health");
  };
  EXPECT_EQ(fail(std::chrono::seconds(50)).text, R"({"status":"storage_error"})");
  EXPECT_EQ(fail(std::chrono::seconds(50)).head.status, 503);
  EXPECT_EQ(fail(std::chrono::seconds(61)).text, R"({"status":"ok"})");
  metrics_.SetStreaming({.failed_reads = 2});
  EXPECT_EQ(Ask("GET", "/health").head.status, 200);
}

TEST_F(ServiceTest, WhileDraining) {
  service().Drain();
  EXPECT_EQ(Ask("GET", "/health").text, R"({"status":"draining"})");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 503);
  EXPECT_EQ(Ask("GET", "/v1/models").head.status, 200);
}

TEST_F(ServiceTest, OtherNamesAreAnsweredUnlessStrict) {
  const char* body = R"({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]})";
  EXPECT_EQ(ReadJson(Ask("POST", "/v1/chat/completions", body))["model"], "gpt-4o");
  options_.strict_model_names = true;
  service_.reset();
  EXPECT_EQ(ReadJson(Ask("POST", "/v1/chat/completions", body))["error"]["code"],
            "model_not_found");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 200) << "none is named";
}

// Claude Code asks for the card of a name with "[1m]".
TEST_F(ServiceTest, CardsOfOtherNamesUnlessStrict) {
  for (const auto& [encoded, name] :
       {std::pair("gpt-4o", "gpt-4o"), {"claude-opus-4-8%5B1m%5D", "claude-opus-4-8[1m]"}}) {
    const std::string path = std::string("/v1/models/") + encoded;
    options_.strict_model_names = false;
    service_.reset();
    const FakeExchange card = Ask("GET", path);
    EXPECT_EQ(card.head.status, 200) << name;
    EXPECT_EQ(ReadJson(card)["id"], name);
    EXPECT_EQ(ReadJson(Ask("GET", path, "", {{"anthropic-version", "2023-06-01"}}))["id"], name);
    options_.strict_model_names = true;
    service_.reset();
    const FakeExchange refused = Ask("GET", path);
    EXPECT_EQ(refused.head.status, 404) << name;
    EXPECT_EQ(ReadJson(refused)["error"]["code"], "model_not_found");
    EXPECT_THAT(ReadJson(refused)["error"]["message"].get<std::string>(), HasSubstr(name));
    const FakeExchange in_other_form = Ask("GET", path, "", {{"anthropic-version", "2023-06-01"}});
    EXPECT_EQ(in_other_form.head.status, 404);
    EXPECT_EQ(ReadJson(in_other_form)["error"]["type"], "not_found_error");
    EXPECT_EQ(ReadJson(Ask("GET", "/v1/models/a%2Fb"))["id"], "a/b");
  }
}

TEST_F(ServiceTest, StreamsAndWholeAnswersAgree) {
  const Json whole = ReadJson(Ask("POST", "/v1/chat/completions", kChat));
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "Hello.");
  const FakeExchange stream = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_TRUE(stream.is_stream);
  EXPECT_EQ(stream.head.content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(stream.Field("Cache-Control"), "no-cache");
  EXPECT_TRUE(stream.text.ends_with("data: [DONE]\n\n"));
}

TEST_F(ServiceTest, AClientThatLeavesCancels) {
  answer_->delay = std::chrono::milliseconds(2);
  for (const char* body : {kChat, kStream}) {
    FakeExchange exchange;
    exchange.looks_until_gone = 2;
    service().Handle({.method = "POST", .path = "/v1/chat/completions", .body = body}, exchange);
    EXPECT_LE(exchange.n_looks, 3u);
  }
  FakeExchange exchange;
  exchange.writes_until_gone = 1;
  service().Handle({.method = "POST", .path = "/v1/chat/completions", .body = kStream}, exchange);
  EXPECT_EQ(runner_.cancelled(), 3);
  EXPECT_EQ(records_[0].status, 499);
  EXPECT_EQ(records_[0].finish, "cancelled");
  EXPECT_EQ(ReadJson(Ask("GET", "/load"))["server_load"], 0);
}

TEST_F(ServiceTest, AStreamLooksForItsClientOnceAWrite) {
  answer_->delay = std::chrono::milliseconds(2);
  options_.generation.watch = std::chrono::seconds(10);
  const FakeExchange stream = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_GT(stream.n_writes, 3u);
  EXPECT_LE(stream.n_looks, stream.n_writes + 1) << "once more where the engine ends";
}

TEST_F(ServiceTest, SilentStreamsShowThatTheyLive) {
  options_.generation.keep_alive = std::chrono::milliseconds(20);
  answer_->first_delay = std::chrono::milliseconds(90);
  const FakeExchange stream = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_TRUE(stream.text.starts_with(": keep-alive\n\n"));
  EXPECT_TRUE(stream.text.ends_with("data: [DONE]\n\n"));
  EXPECT_THAT(Ask("POST", "/v1/chat/completions", kChat).text, Not(HasSubstr("keep-alive")));
}

TEST_F(ServiceTest, AnswersMayBeLimitedInTime) {
  options_.generation.time_limit = std::chrono::milliseconds(30);
  answer_->delay = std::chrono::milliseconds(15);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 504);
  const FakeExchange stream = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_THAT(stream.text, HasSubstr("\"code\":\"timeout\""));
  EXPECT_THAT(stream.text, Not(HasSubstr("[DONE]")));
  EXPECT_EQ(runner_.cancelled(), 2);
}

TEST_F(ServiceTest, ErrorsOfTheEngine) {
  answer_->finish = FinishReason::kError;
  answer_->error = Error{ErrorCode::kIo, "the disk is gone"};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 500);
  const FakeExchange stream = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_EQ(stream.head.status, 200);
  EXPECT_THAT(stream.text, HasSubstr("the disk is gone"));
  EXPECT_THAT(stream.text, Not(HasSubstr("[DONE]")));
  answer_ = MakeError(ErrorCode::kResourceExhausted, "the queue is full");
  const FakeExchange full = Ask("POST", "/v1/chat/completions", kStream);
  EXPECT_EQ(full.head.status, 429);
  EXPECT_EQ(full.Field("Retry-After"), "1");
}

TEST_F(ServiceTest, RecordsSayWhatHappenedAndNotWhatWasSaid) {
  Ask("POST", "/v1/chat/completions", kChat, {{"X-Request-Id", "mine"}});
  Ask("GET", "/nowhere", "", {{"X-Request-Id", "two words"}});
  ASSERT_EQ(records_.size(), 2u);
  EXPECT_EQ(records_[0].id, "mine");
  EXPECT_EQ(records_[0].endpoint, "/v1/chat/completions");
  EXPECT_EQ(records_[0].finish, "stop");
  EXPECT_GT(records_[0].usage.completion_tokens, 3);
  EXPECT_EQ(records_[0].body, std::nullopt);
  EXPECT_EQ(records_[0].answer, std::nullopt);
  EXPECT_TRUE(records_[1].id.starts_with("req_")) << "two words are no id";
  EXPECT_EQ(records_[1].endpoint, "none");
  EXPECT_EQ(records_[1].status, 404);
  options_.log_content = true;
  service_.reset();
  const FakeExchange exchange = Ask("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(records_[2].body, kChat);
  EXPECT_EQ(records_[2].answer, exchange.text);
  EXPECT_EQ(exchange.Field("X-Request-Id"), records_[2].id);
}

TEST_F(ServiceTest, TokensOfTextsAndChats) {
  const Json text =
      ReadJson(Ask("POST", "/tokenize", R"({"prompt": "Once upon", "return_token_strs": true})"));
  EXPECT_EQ(text["count"], text["tokens"].size());
  EXPECT_EQ(text["tokens"][0], 0) << "the begin token";
  EXPECT_EQ(text["token_strs"].size(), text["tokens"].size());
  EXPECT_EQ(text["max_model_len"], model_.limits.max_context);
  const Json back = ReadJson(Ask("POST", "/detokenize", Json{{"tokens", text["tokens"]}}.dump()));
  EXPECT_EQ(back["prompt"], "<｜begin▁of▁sentence｜>Once upon");
  EXPECT_GT(ReadJson(Ask("POST", "/tokenize", kChat))["count"], 3);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt": ["a", "b"]})").head.status, 400);
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens": [1, 99999999]})").head.status, 400);
  EXPECT_EQ(Ask("POST", "/detokenize", "{}").head.status, 400);
}

// "0," may stand for a token of many bytes.
TEST_F(ServiceTest, ListsOfTokensHaveALimit) {
  model_.limits.max_detokenized = 1000;
  const auto list = [](int n_tokens) {
    std::string body = R"({"tokens": [0)";
    for (int i = 1; i < n_tokens; ++i) body += ",0";
    return body + "]}";
  };
  EXPECT_EQ(Ask("POST", "/detokenize", list(1000)).head.status, 200);
  const FakeExchange refused = Ask("POST", "/detokenize", list(1001));
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_THAT(refused.head.body, HasSubstr("tokens: expected at most 1000 token ids, found 1001"));
}

TEST_F(ServiceTest, ModelsInBothForms) {
  const Json openai = ReadJson(Ask("GET", "/v1/models"));
  EXPECT_EQ(openai["object"], "list");
  EXPECT_EQ(openai["data"][1]["id"], "a/b");
  EXPECT_EQ(openai["models"], openai["data"]) << "Codex reads this one";
  const Json anthropic =
      ReadJson(Ask("GET", "/v1/models", "", {{"anthropic-version", "2023-06-01"}}));
  EXPECT_EQ(anthropic["data"][0]["type"], "model");
  EXPECT_EQ(anthropic["data"][0]["created_at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(anthropic["has_more"], false);
}

TEST_F(ServiceTest, MetricsHaveOurNamesAndThoseOfVllm) {
  Ask("POST", "/v1/chat/completions", kChat);
  service().SetHttpCounts([] { return HttpCounts{.connections = 3}; });
  const std::string text = Ask("GET", "/metrics").text;
  EXPECT_THAT(text, HasSubstr("fathom_http_requests_total{endpoint=\"/v1/chat/completions\","
                              "status=\"200\"} 1"));
  EXPECT_THAT(text, HasSubstr("fathom_http_connections 3"));
  EXPECT_THAT(text, HasSubstr("\nfathom_running 0"));
  EXPECT_THAT(text, HasSubstr("\nvllm:num_requests_running{model_name=\"fairy\"} 0"));
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{model_name=\"fairy\","
                              "finished_reason=\"stop\"} 1"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:time_to_first_token_seconds histogram"));
  EXPECT_THAT(text, HasSubstr("vllm:kv_cache_usage_perc{model_name=\"fairy\"} 0"));
}

}  // namespace
}  // namespace fathom::testing
