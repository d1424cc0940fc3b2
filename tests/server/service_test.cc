// Paths, access and the log, without sockets.
#include "server/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/responses/response_store.h"
#include "engine/metrics.h"
#include "server/client_models.h"
#include "tests/api/api_model.h"
#include "tests/http/fake_exchange.h"
#include "tests/server/scripted_runner.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "Hi"}]})";
constexpr const char* kStream =
    R"({"stream": true, "messages": [{"role": "user", "content": "Hi"}]})";

class ServiceTest : public ApiModelTest {
 protected:
  explicit ServiceTest() : runner_(tokenizer_, [this](const std::string&) { return answer_; }) {
    options_.version = "1.2.3";
    options_.generation = {.watch = std::chrono::milliseconds(5), .random_bits = CountingBits()};
    options_.record = [this](const ServedRequest& record) {
      const std::lock_guard lock(records_mutex_);
      records_.push_back(record);
    };
  }

  Service& service() {
    if (!service_) {
      service_.emplace(options_);
      if (has_model_) {
        service_->SetModel({.api = &model_,
                            .api_of_key = api_of_key_,
                            .runner = &runner_,
                            .metrics = &metrics_,
                            .names = {"fairy", "a/b"},
                            .created = 1700000000});
      }
    }
    return *service_;
  }

  FakeExchange Ask(const std::string& method, const std::string& path, const std::string& body = "",
                   HttpFields fields = {}) {
    FakeExchange exchange;
    Ask(method, path, body, std::move(fields), exchange);
    return exchange;
  }
  void Ask(const std::string& method, const std::string& path, const std::string& body,
           HttpFields fields, FakeExchange& exchange) {
    service().Handle({.method = method, .path = path, .fields = std::move(fields), .body = body},
                     exchange);
    EXPECT_EQ(exchange.n_answers, 1u) << path;
  }
  static Json JsonOf(const FakeExchange& exchange) {
    return Json::parse(exchange.text, nullptr, false);
  }

  ServiceOptions options_;
  bool has_model_ = true;
  std::vector<const ApiModel*> api_of_key_;
  Result<ScriptedAnswer> answer_ = ScriptedAnswer{.text = "So.</think>Hello."};
  ScriptedRunner runner_;
  const EngineMetrics metrics_;
  std::mutex records_mutex_;
  std::vector<ServedRequest> records_;
  std::optional<Service> service_;
};

TEST_F(ServiceTest, EveryPathAnswers) {
  for (const char* path :
       {"/", "/openapi.json", "/health", "/ping", "/v1/health", "/health/live", "/version",
        "/metrics", "/load", "/v1/models", "/models", "/v1/models/fairy", "/v1/models/a%2Fb"}) {
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
  for (const char* path : {"/v1/completions", "/completions", "/beta/completions", "/tokenize"}) {
    EXPECT_EQ(Ask("POST", path, R"({"prompt": "Hi"})").head.status, 200) << path;
  }
  for (const char* path : {"/v1/messages", "/anthropic/v1/messages", "/v1/messages/count_tokens",
                           "/anthropic/v1/messages/count_tokens"}) {
    EXPECT_EQ(Ask("POST", path, kChat).head.status, 200) << path;
  }
  for (const char* path : {"/v1/responses", "/responses"}) {
    EXPECT_EQ(Ask("POST", path, R"({"input": "Hi"})").head.status, 200) << path;
  }
  for (const char* path : {"/v1", "/v1/embeddings", "//", "/v1/models/", "/../etc/passwd"}) {
    const FakeExchange none = Ask("GET", path);
    EXPECT_EQ(none.head.status, 404) << path;
    EXPECT_TRUE(JsonOf(none)["error"]["message"].is_string());
  }
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
  Json message = JsonOf(first)["choices"][0]["message"];
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
  EXPECT_EQ(JsonOf(tokens)["count"], records_[1].usage.prompt_tokens) << "of the same prompt";
}

TEST_F(ServiceTest, ErrorsHaveTheFormOfTheApi) {
  const Json openai = JsonOf(Ask("POST", "/v1/chat/completions", "{"));
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  const Json anthropic = JsonOf(Ask("POST", "/v1/messages", "{"));
  EXPECT_EQ(anthropic["type"], "error");
  const Json by_field = JsonOf(Ask("GET", "/v1/models/x", "", {{"anthropic-version", "1"}}));
  EXPECT_EQ(by_field["type"], "error");
}

TEST_F(ServiceTest, KeysAreAskedFor) {
  options_.access.api_keys = {"key one", "two"};
  for (const HttpFields& fields :
       {HttpFields{{"authorization", "Bearer key one"}}, HttpFields{{"X-API-Key", "two"}}}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", fields).head.status, 200);
  }
  for (const HttpFields& fields :
       {HttpFields{}, HttpFields{{"authorization", "key one"}}, HttpFields{{"x-api-key", "tw"}},
        HttpFields{{"x-api-key", "two "}}, HttpFields{{"authorization", "Bearer "}},
        HttpFields{{"authorization", "Bearer one"}, {"x-api-key", "two"}}}) {
    for (const char* path : {"/v1/models", "/load", "/v1/models/fairy"}) {
      EXPECT_EQ(Ask("GET", path, "", fields).head.status, 401) << path;
    }
    for (const char* path : {"/v1/chat/completions", "/tokenize", "/detokenize", "/v1/messages",
                             "/v1/responses", "/v1/completions", "/v1/messages/count_tokens"}) {
      EXPECT_EQ(Ask("POST", path, kChat, fields).head.status, 401) << path;
    }
  }
  for (const char* path : {"/", "/health", "/version", "/metrics", "/openapi.json"}) {
    EXPECT_EQ(Ask("GET", path).head.status, 200) << path;
  }
  EXPECT_EQ(runner_.submitted(), 0);
}

// What a client has stored is there for the holder of its key alone.
TEST_F(ServiceTest, ClientsHaveMemoriesOfTheirOwn) {
  options_.access.api_keys = {"one", "two"};
  const ClientModels models(model_, options_.access.api_keys,
                            {.replay_scope = ReplayScope::kAll, .replay_bytes = 1 << 20},
                            CountingBits());
  api_of_key_ = models.models();
  ASSERT_EQ(api_of_key_.size(), 2u);
  EXPECT_NE(api_of_key_[0]->cache_salt, api_of_key_[1]->cache_salt);
  const HttpFields one = {{"x-api-key", "one"}};
  const HttpFields two = {{"x-api-key", "two"}};

  const Json sent = JsonOf(Ask("POST", "/v1/responses", R"({"input": "Hi"})", one));
  const std::string path = "/v1/responses/" + sent["id"].get<std::string>();
  const std::string next = Json({{"input", "And?"}, {"previous_response_id", sent["id"]}}).dump();
  const std::string item =
      Json({{"input", {{{"type", "item_reference"}, {"id", sent["output"][0]["id"]}}}}}).dump();
  EXPECT_EQ(Ask("GET", path, "", two).head.status, 404);
  EXPECT_EQ(Ask("DELETE", path, "", two).head.status, 404);
  EXPECT_NE(Ask("POST", "/v1/responses", next, two).head.status, 200);
  EXPECT_NE(Ask("POST", "/v1/responses", item, two).head.status, 200);
  EXPECT_EQ(Ask("GET", path, "", one).head.status, 200) << "nobody has deleted it";
  EXPECT_EQ(Ask("POST", "/v1/responses", next, one).head.status, 200);
  EXPECT_EQ(Ask("POST", "/v1/responses", item, one).head.status, 200);

  const Json turns = {{"role", "user"}, {"content", "Hi"}};
  Ask("POST", "/v1/chat/completions", kChat, one);
  const std::string again = Json({{"messages",
                                   {turns,
                                    {{"role", "assistant"}, {"content", "Hello."}},
                                    {{"role", "user"}, {"content", "And?"}}}}})
                                .dump();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", again, two).Field("X-Exact-Replay"), "");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", again, one).Field("X-Exact-Replay"), "1");
}

TEST_F(ServiceTest, WithoutAnAdminKeyThereIsNothingToAdminister) {
  options_.access.api_keys = {"key"};
  for (const HttpFields& fields : {HttpFields{}, HttpFields{{"x-api-key", "key"}}}) {
    EXPECT_EQ(Ask("GET", "/slots", "", fields).head.status, 404);
    EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", fields).head.status, 404);
  }
}

TEST_F(ServiceTest, AdminKeysAreNotApiKeys) {
  options_.access.admin_keys = {"root"};
  for (const bool has_api_keys : {false, true}) {
    if (has_api_keys) options_.access.api_keys = {"key"};
    service_.reset();
    for (const HttpFields& fields :
         {HttpFields{}, HttpFields{{"x-api-key", "key"}}, HttpFields{{"x-api-key", "roo"}}}) {
      EXPECT_EQ(Ask("GET", "/slots", "", fields).head.status, 401);
      EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", fields).head.status, 401);
    }
    const HttpFields root = {{"Authorization", "Bearer root"}};
    EXPECT_EQ(Ask("GET", "/slots", "", root).text, "[]");
    EXPECT_EQ(Ask("POST", "/abort", R"({"request_id": "a"})", root).head.status, 404);
    EXPECT_EQ(Ask("POST", "/slots", "", root).head.status, 405);
    EXPECT_EQ(Ask("GET", "/v1/models", "", root).head.status, has_api_keys ? 401 : 200);
  }
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
      slots = JsonOf(Ask("GET", "/slots", "", root));
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
    EXPECT_EQ(Ask("GET", "/slots", "", root).text, "[]");
  }
  EXPECT_EQ(runner_.cancelled(), 2);
}

// Anthropic's packages look for the id there.
TEST_F(ServiceTest, TheIdOfARequestInAnthropicsForm) {
  const FakeExchange refused = Ask("POST", "/v1/messages", "{", {{"X-Request-Id", "mine"}});
  EXPECT_EQ(refused.Field("request-id"), "mine");
  EXPECT_EQ(refused.Field("X-Request-Id"), "mine");
  EXPECT_EQ(JsonOf(refused)["request_id"], "mine");
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
  EXPECT_FALSE(JsonOf(openai).contains("request_id"));
}

TEST_F(ServiceTest, NothingRunsInTheBackgroundToBeCancelled) {
  ResponseStore store;
  model_.responses = &store;
  const Json made = JsonOf(Ask("POST", "/v1/responses", R"({"input": "Hi"})"));
  const std::string path = "/v1/responses/" + made["id"].get<std::string>();
  EXPECT_EQ(Ask("GET", path).head.status, 200);
  const FakeExchange refused = Ask("POST", path + "/cancel");
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_EQ(JsonOf(refused)["error"]["message"], "Cannot cancel a synchronous response.");
  EXPECT_EQ(JsonOf(refused)["error"]["type"], "invalid_request_error");
  EXPECT_EQ(Ask("POST", "/v1/responses/resp_0/cancel").head.status, 404);
  EXPECT_EQ(Ask("POST", "/v1/responses//cancel").head.status, 404);
  EXPECT_EQ(Ask("GET", path + "/cancel").Field("Allow"), "POST, OPTIONS");
  EXPECT_EQ(Ask("POST", path).Field("Allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(Ask("DELETE", path).head.status, 200);
  EXPECT_EQ(Ask("POST", path + "/cancel").head.status, 404);
}

TEST_F(ServiceTest, AnswersThatATurnTokenEndsAreCounted) {
  answer_->text = "So.</think>Hello.<｜User｜>And now?";
  const Json chat = JsonOf(Ask("POST", "/v1/chat/completions", kChat))["choices"][0];
  EXPECT_EQ(chat["message"]["content"], "Hello.");
  EXPECT_EQ(chat["finish_reason"], "stop");
  EXPECT_EQ(records_.back().turn_stops, 1);
  EXPECT_EQ(JsonOf(Ask("POST", "/v1/messages", kChat))["stop_reason"], "end_turn");
  EXPECT_THAT(Ask("POST", "/v1/completions", R"({"prompt": "Hi"})").text, HasSubstr("<｜User｜>"));
  EXPECT_THAT(Ask("GET", "/metrics").text, HasSubstr("fathom_turn_token_stops_total 2"));
}

TEST_F(ServiceTest, ControlTokensAreNoText) {
  answer_->text = "So<｜fim▁hole｜>.</think>Hel<｜end▁of▁sentence｜>lo<｜Assistant｜>.";
  const Json chat = JsonOf(Ask("POST", "/v1/chat/completions",
                               R"({"ignore_eos": true, "messages": [{"role": "user",
                                   "content": "Hi"}]})"))["choices"][0];
  EXPECT_EQ(chat["message"]["content"], "Hello.");
  EXPECT_EQ(chat["message"]["reasoning_content"], "So.");
}

TEST_F(ServiceTest, MetricsCanBeProtected) {
  options_.access.api_keys = {"key"};
  options_.protect_metrics = true;
  EXPECT_EQ(Ask("GET", "/metrics").head.status, 401);
  EXPECT_EQ(Ask("GET", "/metrics", "", {{"x-api-key", "key"}}).head.status, 200);
}

TEST_F(ServiceTest, PagesOfOtherSitesMayNotAsk) {
  const HttpFields ours = {{"Host", "localhost:8000"}, {"Origin", "http://localhost:8000"}};
  const HttpFields theirs = {{"Host", "localhost:8000"}, {"Origin", "https://evil.example"}};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, ours).head.status, 200);
  const FakeExchange refused = Ask("POST", "/v1/chat/completions", kChat, theirs);
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_EQ(refused.Field("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(
      Ask("OPTIONS", "/v1/chat/completions", "", theirs).Field("Access-Control-Allow-Methods"), "");
  EXPECT_EQ(runner_.submitted(), 1);
}

TEST_F(ServiceTest, AllowedOriginsMayAsk) {
  options_.access.cors_origins = {"https://good.example"};
  const HttpFields good = {{"Origin", "https://good.example"},
                           {"Access-Control-Request-Headers",
                            "authorization, x-stainless-lang, x-stainless-EVIL\", x-other"}};
  const FakeExchange preflight = Ask("OPTIONS", "/v1/chat/completions", "", good);
  EXPECT_EQ(preflight.head.status, 204);
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Origin"), "https://good.example");
  EXPECT_THAT(preflight.Field("Access-Control-Allow-Headers"),
              AllOf(HasSubstr("authorization"), HasSubstr("x-stainless-lang"),
                    Not(HasSubstr("EVIL")), Not(HasSubstr("x-other"))));
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, good).Field("Access-Control-Allow-Origin"),
            "https://good.example");
  EXPECT_EQ(
      Ask("POST", "/v1/chat/completions", kChat, {{"Origin", "https://evil.example"}}).head.status,
      403);
}

// DNS rebinding: a site's own name that points to this machine.
TEST_F(ServiceTest, OnlyNamesOfOursAreAnswered) {
  for (const char* host : {"localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", ""}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", host}}).head.status, 200) << host;
  }
  for (const char* host :
       {"evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example"}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", host}}).head.status, 403) << host;
  }
}

TEST_F(ServiceTest, NamesCanBeAllowedAndKeysMakeThemNeedless) {
  options_.access.allowed_hosts = {"gpu.lan"};
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "gpu.lan:8000"}}).head.status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "other.lan"}}).head.status, 403);
  options_.access.api_keys = {"key"};
  service_.reset();
  EXPECT_EQ(Ask("GET", "/v1/models", "", {{"Host", "any"}, {"x-api-key", "key"}}).head.status, 200);
}

TEST_F(ServiceTest, OnlyJsonIsRead) {
  for (const char* type : {"application/json", "application/json; charset=utf-8",
                           "Application/JSON", "application/json ;x"}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, {{"Content-Type", type}}).head.status, 200)
        << type;
  }
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat, {{"Content-Type", type}}).head.status, 415)
        << type;
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

TEST_F(ServiceTest, WhileDraining) {
  service().Drain();
  EXPECT_EQ(Ask("GET", "/health").text, R"({"status":"draining"})");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 503);
  EXPECT_EQ(Ask("GET", "/v1/models").head.status, 200);
}

TEST_F(ServiceTest, OtherNamesAreAnsweredUnlessStrict) {
  const char* body = R"({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]})";
  EXPECT_EQ(JsonOf(Ask("POST", "/v1/chat/completions", body))["model"], "gpt-4o");
  options_.strict_model_names = true;
  service_.reset();
  EXPECT_EQ(JsonOf(Ask("POST", "/v1/chat/completions", body))["error"]["code"], "model_not_found");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", kChat).head.status, 200) << "none is named";
}

TEST_F(ServiceTest, StreamsAndWholeAnswersAgree) {
  const Json whole = JsonOf(Ask("POST", "/v1/chat/completions", kChat));
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
  EXPECT_EQ(JsonOf(Ask("GET", "/load"))["server_load"], 0);
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
      JsonOf(Ask("POST", "/tokenize", R"({"prompt": "Once upon", "return_token_strs": true})"));
  EXPECT_EQ(text["count"], text["tokens"].size());
  EXPECT_EQ(text["tokens"][0], 0) << "the begin token";
  EXPECT_EQ(text["token_strs"].size(), text["tokens"].size());
  EXPECT_EQ(text["max_model_len"], model_.limits.max_context);
  const Json back = JsonOf(Ask("POST", "/detokenize", Json{{"tokens", text["tokens"]}}.dump()));
  EXPECT_EQ(back["prompt"], "<｜begin▁of▁sentence｜>Once upon");
  EXPECT_GT(JsonOf(Ask("POST", "/tokenize", kChat))["count"], 3);
  EXPECT_EQ(Ask("POST", "/tokenize", R"({"prompt": ["a", "b"]})").head.status, 400);
  EXPECT_EQ(Ask("POST", "/detokenize", R"({"tokens": [1, 99999999]})").head.status, 400);
  EXPECT_EQ(Ask("POST", "/detokenize", "{}").head.status, 400);
}

TEST_F(ServiceTest, ModelsInBothForms) {
  const Json openai = JsonOf(Ask("GET", "/v1/models"));
  EXPECT_EQ(openai["object"], "list");
  EXPECT_EQ(openai["data"][1]["id"], "a/b");
  EXPECT_EQ(openai["models"], openai["data"]) << "Codex reads this one";
  const Json anthropic =
      JsonOf(Ask("GET", "/v1/models", "", {{"anthropic-version", "2023-06-01"}}));
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
