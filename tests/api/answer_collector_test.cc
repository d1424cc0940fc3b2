#include "api/answer_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/token_sections.h"
#include "tests/api/api_model.h"
#include "tests/api/golden_answers.h"

namespace fathom {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr std::string_view kCalls =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

class AnswerCollectorTest : public testing::ApiModelTest {
 protected:
  AnswerCollectorTest() {
    const std::vector<ToolSpec> tools = {{.name = "f", .function_json = R"({"name":"f"})"}};
    options_ = {.starts_in_reasoning = true, .tools = *ToolSchemas::Make(tools)};
  }

  CollectedAnswer Collect(const std::vector<StreamEvent>& events) const {
    AnswerCollector collector(options_, testing::CountingBits());
    for (const StreamEvent& event : events) {
      EXPECT_FALSE(collector.finished());
      collector.Add(event);
    }
    EXPECT_TRUE(collector.finished());
    return collector.collected();
  }

  AnswerOptions options_;
};

TEST_F(AnswerCollectorTest, ReasoningContentAndCalls) {
  for (const std::size_t n_held : {0u, 1u, 5u, 1000u}) {
    const CollectedAnswer collected = Collect(
        Events("Let me see.</think>Well." + std::string(kCalls), FinishReason::kStop, n_held));
    EXPECT_EQ(collected.answer.reasoning_content, "Let me see.");
    EXPECT_EQ(collected.answer.content, "Well.");
    ASSERT_THAT(collected.answer.tool_calls, SizeIs(2));
    EXPECT_EQ(collected.answer.tool_calls[0].arguments, R"({"a": "x"})");
    EXPECT_NE(collected.answer.tool_calls[0].id, collected.answer.tool_calls[1].id);
    EXPECT_EQ(collected.answer.finish_reason, ChatFinishReason::kToolCalls);
    EXPECT_EQ(collected.error, std::nullopt);
  }
}

TEST_F(AnswerCollectorTest, WithoutParallelCallsTheFirstCounts) {
  options_.parallel_tool_calls = false;
  for (const bool stream : {false, true}) {
    options_.stream_arguments = stream;
    const CollectedAnswer collected =
        Collect(Events("</think>" + std::string(kCalls), FinishReason::kStop));
    ASSERT_THAT(collected.answer.tool_calls, SizeIs(1));
    EXPECT_EQ(collected.answer.tool_calls[0].arguments, R"({"a": "x"})");
    EXPECT_EQ(collected.answer.finish_reason, ChatFinishReason::kToolCalls);
  }
}

TEST_F(AnswerCollectorTest, EventsTogetherAreTheAnswer) {
  options_.stream_arguments = true;
  AnswerCollector collector(options_, testing::CountingBits());
  Answer together;
  for (const StreamEvent& event :
       Events("Ünïcödé.</think>Wéll 😀." + std::string(kCalls), FinishReason::kLength)) {
    for (const AnswerEvent& piece : collector.Add(event)) {
      EXPECT_TRUE(IsValidUtf8(piece.text));
      AddToAnswer(piece, &together);
    }
  }
  EXPECT_EQ(AnswerToJson(together), AnswerToJson(collector.collected().answer));
  EXPECT_EQ(together.reasoning_content, "Ünïcödé.");
  EXPECT_EQ(together.content, "Wéll 😀.");
}

TEST_F(AnswerCollectorTest, CharactersCutInTwo) {
  options_ = {.is_chat = false};
  const std::string smile = "😀";
  EXPECT_EQ(Collect({{.token = 5, .text = "a" + smile.substr(0, 2)},
                     {.token = 6, .text = smile.substr(2)},
                     {.token = 7, .finish = FinishReason::kStop}})
                .answer.content,
            "a😀");
  EXPECT_EQ(Collect({{.token = 5, .text = smile.substr(0, 2), .finish = FinishReason::kLength}})
                .answer.content,
            "\uFFFD");
  // In a chat it may have been the beginning of a marker, and is left out.
  options_ = {.is_chat = true};
  EXPECT_EQ(Collect({{.token = 5, .text = smile.substr(0, 2), .finish = FinishReason::kLength}})
                .answer.content,
            "");
}

TEST_F(AnswerCollectorTest, Ends) {
  options_ = {.is_chat = false, .stop_tokens = {42}, .stop_strings = {"a", "b"}};
  CollectedAnswer collected = Collect({{.token = 1, .finish = FinishReason::kStop}});
  EXPECT_EQ(collected.stop_token, std::nullopt) << "the end token is no stop of the request";
  EXPECT_EQ(collected.answer.finish_reason, ChatFinishReason::kStop);
  EXPECT_THAT(collected.tokens, ElementsAre(1));
  collected = Collect({{.token = 42, .finish = FinishReason::kStop}});
  EXPECT_EQ(collected.stop_token, 42);
  collected = Collect({{.token = 5, .finish = FinishReason::kStopString, .stop_string = 1}});
  EXPECT_EQ(collected.stop_string, "b");
  EXPECT_EQ(collected.answer.finish_reason, ChatFinishReason::kStop);
  collected = Collect({{.token = 5, .text = "x", .finish = FinishReason::kLength}});
  EXPECT_EQ(collected.answer.finish_reason, ChatFinishReason::kLength);
  collected = Collect({{.finish = FinishReason::kError, .error = Error{ErrorCode::kIo, "bad"}}});
  ASSERT_TRUE(collected.error);
  EXPECT_EQ(collected.error->message, "bad");
  EXPECT_THAT(collected.tokens, ElementsAre());
  EXPECT_TRUE(Collect({{.finish = FinishReason::kError}}).error) << "even without a reason";
  collected = Collect({{.finish = FinishReason::kCancelled}});
  ASSERT_TRUE(collected.error);
  EXPECT_EQ(collected.error->code, ErrorCode::kUnavailable);
}

// Whether SectionsOf gives tokens of that section this text.
TEST_F(AnswerCollectorTest, SectionsOfTokens) {
  const auto text_of = [&](const CollectedAnswer& collected, TokenSection section) {
    const std::vector<TokenSection> sections = SectionsOf(collected, tokenizer_);
    std::string text;
    for (std::size_t i = 0; i < sections.size(); ++i) {
      if (sections[i] == section) text += tokenizer_.TokenBytes(collected.tokens[i]);
    }
    return text;
  };
  for (const std::size_t n_held : {0u, 3u}) {
    const CollectedAnswer collected = Collect(
        Events("Hm, 😀 so.</think>Once 😀 upon" + std::string(kCalls), FinishReason::kStop, n_held));
    EXPECT_EQ(text_of(collected, TokenSection::kReasoning), "Hm, 😀 so.");
    EXPECT_EQ(text_of(collected, TokenSection::kContent), "Once 😀 upon");
    const std::vector<TokenSection> sections = SectionsOf(collected, tokenizer_);
    EXPECT_EQ(CountReasoning(sections), static_cast<std::int64_t>(Tokens("Hm, 😀 so.").size()));
  }
  options_.starts_in_reasoning = false;
  const CollectedAnswer collected = Collect(Events("Once", FinishReason::kStop));
  EXPECT_EQ(CountReasoning(SectionsOf(collected, tokenizer_)), 0);
  EXPECT_EQ(text_of(collected, TokenSection::kMarkup), "<｜end▁of▁sentence｜>");
}

TEST_F(AnswerCollectorTest, GoldenAnswers) {
  const auto path = testing::SharedData("data/encoding/extra/robust_parse_cases.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  int n_compared = 0;
  for (const Json& golden : Json::parse(testing::ReadFile(*path), nullptr, false)) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    options_ = {.starts_in_reasoning = golden["thinking_mode"] == "thinking",
                .tools = testing::ToolsOf(golden)};
    const FinishReason finish =
        golden["ended_by"] == "length" ? FinishReason::kLength : FinishReason::kStop;
    const Answer answer = Collect(Events(golden["text"].get<std::string>(), finish)).answer;
    Json calls = Json::array();
    for (const ToolCall& call : answer.tool_calls) {
      calls.push_back(
          {{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}});
    }
    const Json& expected = golden["expected"];
    EXPECT_EQ(answer.reasoning_content, expected["reasoning"]);
    EXPECT_EQ(answer.content, expected["content"]);
    EXPECT_EQ(calls, expected["tool_calls"]);
    EXPECT_EQ(ChatFinishReasonName(answer.finish_reason), expected["finish_reason"]);
    ++n_compared;
  }
  EXPECT_GT(n_compared, 25);
}

}  // namespace
}  // namespace fathom
