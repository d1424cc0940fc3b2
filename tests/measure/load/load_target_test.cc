// The requests sent to a server.
#include "measure/load/load_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "json/json_writer.h"
#include "tests/testing/scripted_peer.h"

namespace fathom::measure::load {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::ReplyText;
using testing::ScriptedConnection;
using testing::ScriptedPeer;

json RequestBody(const HttpCall& call) {
  json body = json::parse(call.body, nullptr, false);
  EXPECT_FALSE(body.is_discarded()) << call.body;
  return body;
}

TEST(LoadTargetTest, AsksForCompletionsOfTokens) {
  const LoadTarget target = {.model = "m", .api_key = "k", .temperature = 0.5};
  const HttpCall call = MakeCompletionCall(target, {5, 6, 7}, 9);
  EXPECT_EQ(call.method, "POST");
  EXPECT_EQ(call.path, "/v1/completions");
  EXPECT_THAT(call.fields, Contains(Pair("Authorization", "Bearer k")));
  EXPECT_THAT(call.fields, Contains(Pair("Content-Type", "application/json")));
  EXPECT_EQ(
      RequestBody(call),
      (json{{"model", "m"},
            {"prompt", {5, 6, 7}},
            {"max_tokens", 9},
            {"ignore_eos", true},
            {"temperature", 0.5},
            {"stream", true},
            {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}}));
}

TEST(LoadTargetTest, AsksForAnswersToMessages) {
  JsonValue messages = JsonValue::Array();
  messages.push_back({{"role", "user"}, {"content", "hi"}});
  const HttpCall call = MakeChatCall({.endpoint = LoadEndpoint::kChat, .model = "m"}, messages, 9);
  EXPECT_EQ(call.path, "/v1/chat/completions");
  const json body = RequestBody(call);
  EXPECT_EQ(body["messages"][0]["content"], "hi");
  EXPECT_FALSE(body.contains("temperature"));
  for (const auto& [name, value] : call.fields) {
    EXPECT_NE(name, "Authorization") << value;
  }
}

TEST(LoadTargetTest, AsksForResponses) {
  const JsonValue messages = {{{"role", "user"}, {"content", "hi"}}};
  const HttpCall call =
      MakeChatCall({.endpoint = LoadEndpoint::kResponses, .model = "m"}, messages, 9);
  EXPECT_EQ(call.path, "/v1/responses");
  EXPECT_EQ(RequestBody(call), (json{{"model", "m"},
                                     {"input", json::parse(WriteJson(messages))},
                                     {"max_output_tokens", 9},
                                     {"store", false},
                                     {"ignore_eos", true},
                                     {"stream", true}}));
}

TEST(LoadTargetTest, AsksForMessages) {
  const JsonValue messages = {{{"role", "user"}, {"content", "hi"}}};
  const HttpCall call = MakeChatCall(
      {.endpoint = LoadEndpoint::kMessages, .model = "m", .api_key = "k"}, messages, 9);
  EXPECT_EQ(call.path, "/v1/messages");
  EXPECT_THAT(call.fields, Contains(Pair("anthropic-version", "2023-06-01")));
  EXPECT_THAT(call.fields, Contains(Pair("x-api-key", "k")));
  EXPECT_EQ(RequestBody(call), (json{{"model", "m"},
                                     {"messages", json::parse(WriteJson(messages))},
                                     {"max_tokens", 9},
                                     {"ignore_eos", true},
                                     {"stream", true}}));
}

Result<std::string> FirstModel(int status, const std::string& body) {
  ScriptedPeer server([&](ScriptedConnection& connection) {
    EXPECT_THAT(connection.ReadRequest().value_or(""),
                ::testing::StartsWith("GET /v1/models HTTP/1.1\r\n"));
    connection.Write(ReplyText(status, body));
    connection.WaitForClose();
  });
  return FetchFirstModel({.url = server.url()});
}

TEST(LoadTargetTest, FindsTheFirstModel) {
  const Result<std::string> model = FirstModel(200, R"({"data":[{"id":"a"},{"id":"b"}]})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model, "a");
}

TEST(LoadTargetTest, SaysWhyThereIsNoModel) {
  EXPECT_THAT(FirstModel(401, R"({"error":{"message":"no key"}})").error().message,
              HasSubstr("GET /v1/models: HTTP 401: no key"));
  for (const char* body : {"", "[]", "{}", R"({"data":[]})", R"({"data":[{"id":1}]})"}) {
    const Result<std::string> model = FirstModel(200, body);
    ASSERT_FALSE(model) << body;
    EXPECT_THAT(model.error().message, HasSubstr("expected a list with a model"));
  }
}

}  // namespace
}  // namespace fathom::measure::load
