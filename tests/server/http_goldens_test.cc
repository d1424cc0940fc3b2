// The goldens of answers and prompts through HTTP: every answer divided at every position, whole
// and streamed, over one connection to a real server.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/metrics.h"
#include "http/http_client.h"
#include "http/sse_reader.h"
#include "server/service.h"
#include "tests/api/api_model.h"
#include "tests/chat/golden.h"
#include "tests/chat/served_prompts.h"
#include "tests/server/scripted_runner.h"

namespace fathom::testing {
namespace {

// The parts of an answer as a client sees them.
struct Told {
  std::string reasoning;
  std::string content;
  Json calls = Json::array();  // {"name", "arguments"}
  std::string finish;

  bool operator==(const Told&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Told& told) {
  return out << "reasoning: " << told.reasoning << "\ncontent: " << told.content
             << "\ncalls: " << told.calls.dump() << "\nfinish: " << told.finish;
}

class HttpGoldensTest : public ApiModelTest {
 protected:
  HttpGoldensTest()
      : runner_(tokenizer_, [this](const std::string&) { return Result<ScriptedAnswer>(answer_); }),
        service_({.generation = {.random_bits = CountingBits()}}) {
    service_.SetModel(
        {.api = &model_, .runner = &runner_, .metrics = &metrics_, .names = {"fairy"}});
    server_ = *HttpServer::Listen({.port = 0},
                                  [this](const HttpRequest& request, HttpExchange& exchange) {
                                    service_.Handle(request, exchange);
                                  });
    client_.emplace("http://127.0.0.1:" + std::to_string(server_->port()));
  }
  ~HttpGoldensTest() override { server_->Stop(); }

  std::string Post(const std::string& path, const Json& body) {
    const Result<HttpReply> reply =
        client_->Send({.method = "POST", .path = path, .body = body.dump()});
    EXPECT_TRUE(reply) << reply.error().message;
    EXPECT_TRUE(reply && reply->status == 200) << (reply ? reply->body : "");
    return reply ? reply->body : "{}";
  }

  Told Whole(const Json& body) {
    const Json choice =
        Json::parse(Post("/v1/chat/completions", body), nullptr, false)["choices"][0];
    const Json& message = choice["message"];
    Told told = {
        .reasoning = message.value("reasoning_content", ""),
        .content = message["content"].is_null() ? "" : message["content"].get<std::string>(),
        .finish = choice["finish_reason"].get<std::string>()};
    for (const Json& call : message.value("tool_calls", Json::array())) {
      AddCall(call["function"]["name"], call["function"]["arguments"].get<std::string>(), &told);
    }
    return told;
  }

  Told Streamed(Json body) {
    body["stream"] = true;
    Told told;
    std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
    std::string last;
    SseReader reader;
    const auto take = [&](const SseEvent& event) {
      last = event.data;
      if (event.data == "[DONE]") return;
      const Json choice = Json::parse(event.data, nullptr, false)["choices"][0];
      const Json& delta = choice["delta"];
      told.reasoning += delta.value("reasoning_content", "");
      if (delta.contains("content") && delta["content"].is_string()) {
        told.content += delta["content"].get<std::string>();
      }
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        const auto index = call["index"].get<std::size_t>();
        if (index == calls.size()) calls.emplace_back(call["function"]["name"], "");
        ASSERT_LT(index, calls.size());
        calls[index].second += call["function"]["arguments"].get<std::string>();
      }
      if (choice["finish_reason"].is_string()) told.finish = choice["finish_reason"];
    };
    EXPECT_TRUE(reader.Read(Post("/v1/chat/completions", body), take));
    EXPECT_EQ(last, "[DONE]");
    for (const auto& [name, arguments] : calls) AddCall(name, arguments, &told);
    return told;
  }

  static void AddCall(const std::string& name, const std::string& arguments, Told* told) {
    Json parsed = Json::parse(arguments, nullptr, false);
    if (!parsed.is_object()) parsed = arguments;  // a call that was cut
    told->calls.push_back({{"name", name}, {"arguments", std::move(parsed)}});
  }

  // Every division. If a parameter is written twice, the last value counts in a whole answer, the
  // first in a stream, which has already sent it.
  void ExpectEveryCut(const std::string& name, const Json& body, const Told& wanted) {
    const bool repeats = name.find("duplicate") != std::string::npos;
    std::optional<Told> first_stream;
    for (std::size_t cut = 0; cut <= answer_.text.size(); ++cut) {
      answer_.cut = cut;
      ASSERT_EQ(Whole(body), wanted) << name << " cut at " << cut;
      Told streamed = Streamed(body);
      if (!first_stream) first_stream = streamed;
      ASSERT_EQ(streamed, *first_stream) << name << " cut at " << cut;
      if (repeats) streamed.calls = wanted.calls;
      ASSERT_EQ(streamed, wanted) << name << " cut at " << cut;
    }
    answer_.cut.reset();
    answer_.bytewise = true;
    EXPECT_EQ(Whole(body), wanted) << name;
    EXPECT_EQ(Streamed(body), *first_stream) << name;
    answer_.bytewise = false;
  }

  ScriptedAnswer answer_;
  ScriptedRunner runner_;
  const EngineMetrics metrics_;
  Service service_;
  std::unique_ptr<HttpServer> server_;
  std::optional<HttpClient> client_;
};

Json Tool(const Json& function) { return {{"type", "function"}, {"function", function}}; }

// `schemas`: from the golden; null: the golden has none, so the called functions.
Json MakeBody(const Json& golden, const Json& schemas, const Json& calls) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body["reasoning_effort"] = golden["thinking_mode"] == "thinking" ? "high" : "none";
  if (schemas.is_null()) {
    body["tools"] = Json::array({Tool({{"name", "f"}})});
    for (const Json& call : calls) body["tools"].push_back(Tool({{"name", call["name"]}}));
    return body;
  }
  for (const Json& schema : schemas) {
    body["tools"].push_back(Tool(schema.is_string() ? Json{{"name", schema}} : schema));
  }
  return body;
}

TEST_F(HttpGoldensTest, TolerantParses) {
  const auto goldens = EncodingJson("extra/robust_parse_cases.json");
  if (!goldens) GTEST_SKIP() << kNoSharedData;
  for (const Json& golden : *goldens) {
    Json expected = golden["expected"];
    if (golden["name"] == "R20_truncated_value_length") {  // encoding.md 12: the call stays cut
      expected["tool_calls"][0]["arguments"] = R"({"a": "hel)";
    }
    answer_ = {
        .text = golden["text"].get<std::string>(),
        .finish = golden["ended_by"] == "length" ? FinishReason::kLength : FinishReason::kStop,
        // The goldens are about text, and some values contain the text of a turn token.
        .is_plain = true};
    ExpectEveryCut(golden["name"].get<std::string>(),
                   MakeBody(golden, golden["tool_schemas"], expected["tool_calls"]),
                   {.reasoning = expected["reasoning"].get<std::string>(),
                    .content = expected["content"].get<std::string>(),
                    .calls = expected["tool_calls"],
                    .finish = expected["finish_reason"].get<std::string>()});
  }
}

// The strict goldens whose text is in the format: a server has no strict parser.
TEST_F(HttpGoldensTest, StrictParses) {
  const auto goldens = EncodingJson("extra/parse_cases_strict.json");
  if (!goldens) GTEST_SKIP() << kNoSharedData;
  constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
  int n_cases = 0;
  for (const Json& golden : *goldens) {
    if (!golden["official"].contains("ok")) continue;
    const Json& message = golden["official"]["ok"];
    Told wanted = {.reasoning = message["reasoning_content"].get<std::string>(),
                   .content = message["content"].get<std::string>(),
                   .finish = message["tool_calls"].empty() ? "stop" : "tool_calls"};
    bool has_json = true;
    Json calls = Json::array();
    for (const Json& call : message["tool_calls"]) {
      Json arguments =
          Json::parse(call["function"]["arguments"].get<std::string>(), nullptr, false);
      has_json = has_json && arguments.is_object();
      calls.push_back({{"name", call["function"]["name"]}, {"arguments", std::move(arguments)}});
    }
    if (!has_json) continue;  // the official parser passes on invalid JSON; we never do
    wanted.calls = calls;
    answer_ = {.text = golden["text"].get<std::string>()};
    if (answer_.text.ends_with(kEnd)) answer_.text.resize(answer_.text.size() - kEnd.size());
    ExpectEveryCut(golden["name"].get<std::string>(), MakeBody(golden, nullptr, calls), wanted);
    ++n_cases;
  }
  EXPECT_GE(n_cases, 8);
}

// Prompts that clients of chat completions can ask for, by the tokens of /tokenize.
TEST_F(HttpGoldensTest, Prompts) {
  const auto goldens = EncodingJson("extra/encode_cases.json");
  if (!goldens) GTEST_SKIP() << kNoSharedData;
  int n_cases = 0;
  for (const Json& golden : *goldens) {
    const std::string name = golden["name"].get<std::string>();
    bool is_native = !golden["context"].empty() || golden["add_bos"] == false;
    for (const Json& message : golden["messages"]) is_native |= message["role"] == "developer";
    // Special tokens in the client's text are text here, tokens there.
    if (is_native || name.find("injected") != std::string::npos) continue;
    model_.profile = *FindProfile(golden["profile"].get<std::string>());
    Json body = {
        {"messages", golden["messages"]},
        {"thinking", {{"type", golden["thinking_mode"] == "thinking" ? "enabled" : "disabled"}}},
        {"chat_template_kwargs", {{"drop_thinking", golden["drop_thinking"]}}}};
    // Where the official encoder is told no effort, it adds no text.
    const Json& effort = golden["reasoning_effort"];
    body["reasoning_effort"] = effort.is_null() ? Json("low") : effort;
    // The official encoder begins no turn behind one of the assistant.
    const bool is_answered = golden["messages"].back()["role"] == "assistant";
    if (is_answered) body["add_generation_prompt"] = false;
    const Json tokens = Json::parse(Post("/tokenize", body), nullptr, false)["tokens"];
    const Json text = Json::parse(Post("/detokenize", {{"tokens", tokens}}), nullptr, false);
    const std::optional<std::string> served = ServedPrompt(name);
    EXPECT_EQ(text["prompt"], served ? Json(*served) : golden["expected"]) << name;
    ++n_cases;
  }
  EXPECT_GE(n_cases, 50);
}

}  // namespace
}  // namespace fathom::testing
