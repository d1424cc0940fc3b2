// Ollama's /api/chat and /api/generate, as its clients read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/service_fixture.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OllamaServiceTest : public ServiceTest {
 protected:
  static std::vector<Json> Lines(const FakeExchange& exchange) {
    std::vector<Json> lines;
    std::istringstream text(exchange.text);
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  static constexpr const char* kTools =
      R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function",
          "function": {"name": "f", "parameters": {"type": "object", "properties": {
          "a": {"type": "integer"}, "b": {"type": "string"}}}}}])";
  static constexpr const char* kCall =
      "So.</think>Look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
      "name=\"a\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
};

TEST_F(OllamaServiceTest, WholeChat) {
  const FakeExchange exchange = Ask(
      "POST", "/api/chat",
      R"({"model": "fairy", "stream": false, "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(exchange.head.content_type, "application/json");
  const Json answer = ReadJson(exchange);
  EXPECT_EQ(answer["model"], "fairy");
  EXPECT_EQ(answer["message"],
            Json({{"role", "assistant"}, {"content", "Hello."}, {"thinking", "So."}}));
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "stop");
  EXPECT_GT(answer["prompt_eval_count"], 0);
  EXPECT_GT(answer["eval_count"], 0);
  EXPECT_GT(answer["eval_duration"], 0);
}

TEST_F(OllamaServiceTest, StreamedChat) {
  const FakeExchange exchange = Ask("POST", "/api/chat", kChat);
  EXPECT_EQ(exchange.head.content_type, "application/x-ndjson");
  std::string content;
  std::string thinking;
  const std::vector<Json> lines = Lines(exchange);
  for (const Json& line : lines) {
    EXPECT_EQ(line["done"], &line == &lines.back());
    content += line["message"]["content"].get<std::string>();
    thinking += line["message"].value("thinking", "");
  }
  EXPECT_EQ(content, "Hello.");
  EXPECT_EQ(thinking, "So.");
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  EXPECT_GT(lines.back()["eval_count"], 0);
}

TEST_F(OllamaServiceTest, CallsHaveObjectsAsArguments) {
  answer_ = ScriptedAnswer{.text = kCall};
  const Json whole =
      ReadJson(Ask("POST", "/api/chat", kTools + std::string(R"(, "stream": false})")));
  const Json& calls = whole["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 1u) << whole;
  EXPECT_EQ(calls[0]["function"], Json({{"index", 0}, {"name", "f"}, {"arguments", {{"a", 1}}}}));
  EXPECT_EQ(whole["done_reason"], "stop");
  int n_calls = 0;
  for (const Json& line : Lines(Ask("POST", "/api/chat", kTools + std::string("}")))) {
    if (!line["message"].contains("tool_calls")) continue;
    ++n_calls;
    EXPECT_EQ(line["message"]["tool_calls"][0]["function"], calls[0]["function"]);
  }
  EXPECT_EQ(n_calls, 1);
}

// Clients read nothing but objects, and add the text of each.
TEST_F(OllamaServiceTest, AStreamThatWaitsSendsObjectsWithoutText) {
  options_.generation.keep_alive = std::chrono::milliseconds(20);
  answer_->first_delay = std::chrono::milliseconds(200);
  for (const auto& [path, body] :
       {std::pair("/api/chat", kChat), std::pair("/api/generate", R"({"prompt": "Hi"})")}) {
    const FakeExchange exchange = Ask("POST", path, body);
    const std::vector<Json> lines = Lines(exchange);
    const bool is_chat = lines[0].contains("message");
    const auto is_silent = [&](const Json& line) {
      return line["done"] == false &&
             (is_chat ? line["message"] == Json({{"role", "assistant"}, {"content", ""}})
                      : line["response"] == "" && !line.contains("thinking"));
    };
    EXPECT_TRUE(is_silent(lines[0])) << lines[0];
    EXPECT_GE(std::count_if(lines.begin(), lines.end(), is_silent), 3) << path;
    std::string text;
    for (const Json& line : lines) text += is_chat ? line["message"]["content"] : line["response"];
    EXPECT_EQ(text, "Hello.") << path;
    EXPECT_THAT(exchange.text, Not(HasSubstr("keep-alive"))) << path;
  }
}

TEST_F(OllamaServiceTest, AFaultWhileItStreamsIsTheLastLine) {
  answer_ = ScriptedAnswer{.text = "So.</think>Hel",
                           .finish = FinishReason::kError,
                           .error = Error{ErrorCode::kIo, "the disk is gone"}};
  const std::vector<Json> lines = Lines(Ask("POST", "/api/chat", kChat));
  ASSERT_GT(lines.size(), 1u);
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines.back(), Json({{"error", "the disk is gone"}}));
  const FakeExchange whole = Ask("POST", "/api/generate", R"({"prompt": "Hi", "stream": false})");
  EXPECT_EQ(whole.head.status, 500);
  EXPECT_EQ(ReadJson(whole), Json({{"error", "the disk is gone"}}));
}

// Arguments are objects: a cut call has its finished parameters, or is not there.
TEST_F(OllamaServiceTest, CallsCutByTheLimit) {
  const auto cut = [&](const std::string& end, const std::string& required) -> Json {
    const std::string_view call = kCall;
    answer_ =
        ScriptedAnswer{.text = std::string(call.substr(0, call.find("</｜DSML｜invoke>"))) +
                               R"(<｜DSML｜parameter name="b" string="true">rm -rf /tmp/bui)" + end,
                       .finish = FinishReason::kLength};
    std::string body = kTools;
    body.insert(body.rfind("\"properties\""), "\"required\": [" + required + "], ");
    if (!required.empty()) body.insert(body.rfind("\"name\""), "\"strict\": true, ");
    const Json whole = ReadJson(Ask("POST", "/api/chat", body + R"(, "stream": false})"));
    EXPECT_EQ(whole["done_reason"], "length");
    const Json calls = whole["message"].value("tool_calls", Json::array());
    const std::vector<Json> lines = Lines(Ask("POST", "/api/chat", body + "}"));
    EXPECT_EQ(lines.back()["done_reason"], "length");
    Json streamed = Json::array();
    for (const Json& line : lines) {
      for (const Json& told : line["message"].value("tool_calls", Json::array())) {
        streamed.push_back(told["function"]);
      }
    }
    EXPECT_EQ(streamed.size(), calls.size());
    if (calls.empty()) return Json();
    EXPECT_EQ(streamed[0], calls[0]["function"]);
    return calls[0]["function"]["arguments"];
  };
  EXPECT_EQ(cut("", ""), Json({{"a", 1}})) << "b is not finished";
  EXPECT_EQ(cut("", R"("a")"), Json({{"a", 1}}));
  EXPECT_EQ(cut("", R"("a", "b")"), Json()) << "a strict tool needs b";
  EXPECT_EQ(cut("ld</｜DSML｜parameter>\n", R"("a", "b")"),
            Json({{"a", 1}, {"b", "rm -rf /tmp/build"}}));
}

TEST_F(OllamaServiceTest, Generate) {
  EXPECT_EQ(
      ReadJson(Ask("POST", "/api/generate", R"({"prompt": "Hi", "stream": false})"))["response"],
      "Hello.");
  answer_ = ScriptedAnswer{.text = " upon a time."};
  std::string text;
  for (const Json& line :
       Lines(Ask("POST", "/api/generate", R"({"prompt": "Once", "raw": true})"))) {
    text += line["response"].get<std::string>();
  }
  EXPECT_EQ(text, " upon a time.");
}

TEST_F(OllamaServiceTest, NothingToAnswerSaysThatTheModelIsLoaded) {
  for (const char* body : {R"({"model": "fairy"})", R"({"model": "fairy", "stream": false})"}) {
    const std::vector<Json> chat = Lines(Ask("POST", "/api/chat", body));
    ASSERT_EQ(chat.size(), 1u);
    EXPECT_EQ(chat[0]["message"], Json({{"role", "assistant"}, {"content", ""}}));
    EXPECT_EQ(chat[0]["done"], true);
    EXPECT_EQ(chat[0]["done_reason"], "load");
    const std::vector<Json> generate = Lines(Ask("POST", "/api/generate", body));
    ASSERT_EQ(generate.size(), 1u);
    EXPECT_EQ(generate[0]["response"], "");
    EXPECT_EQ(generate[0]["done_reason"], "load");
  }
}

TEST_F(OllamaServiceTest, ErrorsAreTexts) {
  const FakeExchange wrong =
      Ask("POST", "/api/chat", R"({"messages": [{"role": "bard", "content": ""}]})");
  EXPECT_EQ(wrong.head.status, 400);
  EXPECT_EQ(ReadJson(wrong).size(), 1u);
  EXPECT_THAT(ReadJson(wrong)["error"].get<std::string>(), HasSubstr("messages[0].role"));
  const FakeExchange unknown = Ask("POST", "/api/show", R"({"model": "other"})");
  EXPECT_TRUE(ReadJson(unknown)["error"].is_string());
}

}  // namespace
}  // namespace fathom::testing
