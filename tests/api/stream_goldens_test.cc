// The golden answers of the format, as a stream and whole, however the text is cut into events.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai/openai_api.h"
#include "chat/literals.h"
#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;

struct Golden {
  std::string name;
  Json body;  // of the request
  std::string text;
  FinishReason finish = FinishReason::kStop;
  Json expected;  // reasoning, content, tool_calls, finish_reason; null where the case has none
};

Json GoldenBody(bool thinks, const std::vector<Json>& functions) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"thinking", {{"type", thinks ? "enabled" : "disabled"}}},
               {"stream", true}};
  for (const Json& function : functions) {
    body["tools"].push_back({{"type", "function"}, {"function", function}});
  }
  return body;
}

class StreamGoldensTest : public testing::ApiModelTest {
 protected:
  static std::optional<Json> Load(const std::string& name) {
    const auto path = testing::SharedData("data/encoding/" + name);
    if (!path) return std::nullopt;
    return Json::parse(testing::ReadFile(*path), nullptr, false);
  }

  // Whole, byte by byte, and in two at every place.
  void Check(const Golden& golden) {
    SCOPED_TRACE(golden.name);
    const ApiResult<ApiCall> call = kChatCompletions.prepare(golden.body.dump(), model_);
    ASSERT_TRUE(call) << call.error().message;
    ApiCall whole_call = *call;  // of a repeated parameter the last value counts here
    whole_call.answers.parser.stream_arguments = false;
    const Json whole =
        testing::Tell(whole_call, model_, Cut(golden, {})).whole["choices"][0]["message"];
    std::vector<std::size_t> all(golden.text.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const Json first = Read(*call, golden, {});
    Compare(golden, first);
    for (const char* key : {"content", "reasoning"}) {
      EXPECT_EQ(first["message"].value(key, Json()), whole.value(key, Json()));
    }
    EXPECT_EQ(Read(*call, golden, all), first) << "byte by byte";
    for (std::size_t cut = 0; cut <= golden.text.size(); ++cut) {
      EXPECT_EQ(Read(*call, golden, {cut}), first) << "cut at " << cut;
      if (HasFailure()) return;
    }
  }

 private:
  static std::vector<StreamEvent> Cut(const Golden& golden, const std::vector<std::size_t>& cuts) {
    std::vector<StreamEvent> events;
    std::size_t begin = 0;
    const auto add = [&](std::size_t end) {
      events.push_back({.token = 5,
                        .index = static_cast<std::int64_t>(events.size()),
                        .text = golden.text.substr(begin, end - begin)});
      begin = end;
    };
    for (const std::size_t cut : cuts) add(cut);
    add(golden.text.size());
    events.push_back({.finish = golden.finish});
    return events;
  }

  // The choice that a client of the stream ends up with; its ids are not compared.
  Json Read(const ApiCall& call, const Golden& golden, const std::vector<std::size_t>& cuts) {
    const testing::ToldAnswer told = testing::Tell(call, model_, Cut(golden, cuts));
    const std::vector<Json> chunks = testing::Chunks(told.stream);
    Json choice = testing::JoinChoices(chunks)[0];
    EXPECT_EQ(choice, told.whole["choices"][0]);
    if (choice["message"].contains("tool_calls")) {
      for (Json& tool_call : choice["message"]["tool_calls"]) tool_call["id"] = "";
    }
    return choice;
  }

  static void Compare(const Golden& golden, const Json& choice) {
    const Json& message = choice["message"];
    Json calls = Json::array();
    if (message.contains("tool_calls")) {
      for (const Json& call : message["tool_calls"]) {
        const std::string arguments = call["function"]["arguments"].get<std::string>();
        const Json object = Json::parse(arguments, nullptr, false);
        // Only a call that a limit cut is no object.
        EXPECT_TRUE(object.is_object() || choice["finish_reason"] == "length") << arguments;
        calls.push_back({{"name", call["function"]["name"]},
                         {"arguments", object.is_object() ? object : Json(arguments)}});
      }
    }
    const std::string content =
        message["content"].is_null() ? "" : message["content"].get<std::string>();
    if (golden.expected.is_null()) {
      EXPECT_EQ(content.find("DSML"), std::string::npos) << content;
      EXPECT_EQ(content.find("think>"), std::string::npos) << content;
      return;
    }
    EXPECT_EQ(Json({{"reasoning", message.value("reasoning", "")},
                    {"content", content},
                    {"tool_calls", calls},
                    {"finish_reason", choice["finish_reason"]}}),
              golden.expected);
  }
};

Golden RobustGolden(const Json& json) {
  std::vector<Json> functions;
  for (const Json& schema : json["tool_schemas"]) {
    functions.push_back(schema.is_string() ? Json({{"name", schema}}) : schema);
  }
  if (json["tool_schemas"].is_null()) functions = {{{"name", "f"}}};
  Golden golden = {
      .name = json["name"].get<std::string>(),
      .body = GoldenBody(json["thinking_mode"] == "thinking", functions),
      .text = json["text"].get<std::string>(),
      .finish = json["ended_by"] == "length" ? FinishReason::kLength : FinishReason::kStop,
      .expected = json["expected"]};
  if (golden.name == "R24_duplicate_param") {  // a stream cannot take the first value back
    golden.expected["tool_calls"][0]["arguments"]["a"] = "x";
  }
  if (golden.name == "R20_truncated_value_length") {  // encoding.md 12: the call stays cut
    golden.expected["tool_calls"][0]["arguments"] = R"({"a": "hel)";
  }
  return golden;
}

TEST_F(StreamGoldensTest, RobustCases) {
  const auto cases = Load("extra/robust_parse_cases.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  EXPECT_EQ(cases->size(), 30u);
  for (const Json& json : *cases) Check(RobustGolden(json));
}

// The strict reading: what it gives where it gives something. Where it refuses, nothing leaks.
Golden StrictGolden(const Json& json) {
  std::string text = json["text"].get<std::string>();
  if (text.ends_with(kEndOfSentence)) text.resize(text.size() - kEndOfSentence.size());
  Golden golden = {.name = json["name"].get<std::string>(),
                   .body = GoldenBody(json["thinking_mode"] == "thinking", {{{"name", "f"}}}),
                   .text = text,
                   .expected = nullptr};
  const Json& official = json["official"];
  if (!official.contains("ok")) return golden;
  Json calls = Json::array();
  for (const Json& call : official["ok"]["tool_calls"]) {
    const std::string arguments = call["function"]["arguments"].get<std::string>();
    // The official parser passes on what is no JSON; a client gets it as a string.
    calls.push_back({{"name", call["function"]["name"]},
                     {"arguments", Json::accept(arguments) ? Json::parse(arguments, nullptr, false)
                                                           : Json({{"a", "{oops"}})}});
  }
  golden.expected = {{"reasoning", official["ok"]["reasoning_content"]},
                     {"content", official["ok"]["content"]},
                     {"tool_calls", calls},
                     {"finish_reason", calls.empty() ? "stop" : "tool_calls"}};
  return golden;
}

TEST_F(StreamGoldensTest, StrictCases) {
  const auto cases = Load("extra/parse_cases_strict.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  EXPECT_EQ(cases->size(), 21u);
  for (const Json& json : *cases) Check(StrictGolden(json));
}

// The assistant's turns in an official conversation, and their text.
std::vector<Golden> OfficialGoldens(const Json& input, const std::string& output) {
  constexpr std::string_view kAssistantToken = "<｜Assistant｜>";
  constexpr std::string_view kThink = "<think>";
  std::vector<Golden> goldens;
  std::size_t end = 0;
  for (const Json& message : input.is_array() ? input : input["messages"]) {
    if (message["role"] != "assistant") continue;
    std::size_t begin = output.find(kAssistantToken, end) + kAssistantToken.size();
    end = output.find(kEndOfSentence, begin);
    const bool thinks = output.compare(begin, kThink.size(), kThink) == 0;
    begin += thinks ? kThink.size() : std::string_view("</think>").size();
    std::string text = output.substr(begin, end - begin);
    constexpr std::string_view kAction = "<｜action｜>";  // of the prompt
    if (text.starts_with(kAction)) text.erase(0, kAction.size());
    Json calls = Json::array();
    for (const Json& call : message.value("tool_calls", Json::array())) {
      const Json& function = call["function"];
      calls.push_back(
          {{"name", function["name"]},
           {"arguments", Json::parse(function["arguments"].get<std::string>(), nullptr, false)}});
    }
    const std::string reasoning = thinks ? message.value("reasoning_content", "") : "";
    goldens.push_back({.name = std::to_string(goldens.size()),
                       .body = GoldenBody(thinks, {{{"name", "f"}}}),
                       .text = text,
                       .expected = {{"reasoning", reasoning},
                                    {"content", message.value("content", "")},
                                    {"tool_calls", calls},
                                    {"finish_reason", calls.empty() ? "stop" : "tool_calls"}}});
  }
  return goldens;
}

TEST_F(StreamGoldensTest, OfficialOutputs) {
  std::size_t n_checked = 0;
  for (int number = 1; number <= 4; ++number) {
    SCOPED_TRACE(number);
    const std::string suffix = std::to_string(number);
    const auto input = Load("official_v4/test_input_" + suffix + ".json");
    const auto output =
        testing::SharedData("data/encoding/official_v4/test_output_" + suffix + ".txt");
    if (!input || !output) GTEST_SKIP() << testing::kNoSharedData;
    const std::vector<Golden> goldens = OfficialGoldens(*input, testing::ReadFile(*output));
    for (const Golden& golden : goldens) Check(golden);
    n_checked += goldens.size();
  }
  EXPECT_EQ(n_checked, 8u);
}

}  // namespace
}  // namespace fathom::api
