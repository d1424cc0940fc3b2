#include "chat/strict_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "chat/encoder.h"
#include "chat/literals.h"
#include "tests/chat/golden.h"

namespace fathom::chat {
namespace {

using testing::Json;

// The answer as the prompt of the next turn shows it.
std::string Render(const Answer& answer, ThinkingMode mode) {
  ChatRequest request;
  request.messages = {{.role = Role::kUser, .content = "u"},
                      {.role = Role::kAssistant,
                       .content = answer.content,
                       .reasoning_content = answer.reasoning_content,
                       .tool_calls = answer.tool_calls}};
  const Result<EncodedPrompt> prompt = EncodeChat(request, {.thinking = mode}, PreviewProfile());
  if (!prompt) return prompt.error().message;
  const std::string text = prompt->Text();
  const std::string_view tag = mode == ThinkingMode::kThinking ? kThinkOpenToken : kThinkCloseToken;
  return text.substr(text.find(kAssistantToken) + kAssistantToken.size() + tag.size());
}

TEST(StrictParser, OfficialCases) {
  const auto cases = testing::EncodingJson("extra/parse_cases_strict.json");
  if (!cases) GTEST_SKIP() << testing::kNoSharedData;
  ASSERT_EQ(cases->size(), 21U);
  // Accepted, but not what the encoder writes.
  const std::set<std::string> unclean = {"zero_args_one_newline", "no_eos_after_block",
                                         "false_with_invalid_json_passthrough"};
  int round_trips = 0;
  for (const Json& entry : *cases) {
    const std::string name = entry["name"].get<std::string>();
    const std::string text = entry["text"].get<std::string>();
    const ThinkingMode mode =
        entry["thinking_mode"] == "thinking" ? ThinkingMode::kThinking : ThinkingMode::kChat;
    const Result<Answer> answer = ParseStrictly(text, mode);
    const Json& official = entry["official"];
    ASSERT_EQ(answer.has_value(), official.contains("ok")) << name;
    if (!answer) continue;
    Json calls = Json::array();
    for (const ToolCall& call : answer->tool_calls) {
      calls.push_back({{"type", "function"},
                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    const Json found = {{"role", "assistant"},
                        {"content", answer->content},
                        {"reasoning_content", answer->reasoning_content},
                        {"tool_calls", calls}};
    EXPECT_EQ(found, official["ok"]) << name;
    if (unclean.contains(name)) continue;
    EXPECT_EQ(Render(*answer, mode), text) << name;
    ++round_trips;
  }
  EXPECT_EQ(round_trips, 8);
}

TEST(StrictParser, BlockThatNeverEndsIsAnError) {
  for (const std::string_view text :
       {"\n\n<｜DSML｜tool_calls", "\n\n<｜DSML｜tool_calls>\n",
        "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n",
        "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter"}) {
    EXPECT_FALSE(ParseStrictly(text, ThinkingMode::kChat)) << text;
  }
}

TEST(StrictParser, SaysWhereAndWhatIsExpected) {
  const Result<Answer> answer = ParseStrictly("Hello", ThinkingMode::kThinking);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidData);
  EXPECT_EQ(answer.error().message, "answer, byte 5: expected </think> after the reasoning");
}

}  // namespace
}  // namespace fathom::chat
