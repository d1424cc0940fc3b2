// Conversations that clients send in any order, asked for on the three chat APIs: each gives the
// prompt of docs/spec/encoding.md sections 4 and 12.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "tests/api/api_model.h"

namespace fathom::api {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPairOfCalls =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>";
constexpr std::string_view kSingleCall =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls><｜end▁of▁sentence｜>";

class ArrangedPromptsTest : public testing::ApiModelTest {
 protected:
  std::string PromptFrom(const Api& api, const std::string& body) const {
    const ApiResult<ApiCall> call = api.prepare(body, model_);
    if (!call) return body + ": " + call.error().message;
    return *tokenizer_.Decode(call->requests[0].prompt);
  }
  // The lists of messages and items without brackets; `expected` without the begin token.
  void ExpectChat(const std::string& messages, const std::string& expected,
                  const std::string& fields = R"("enable_thinking": false)") const {
    EXPECT_EQ(PromptFrom(kChatCompletions, R"({"messages": [)" + messages + "], " + fields + "}"),
              "<｜begin▁of▁sentence｜>" + expected);
  }
  void ExpectMessages(const std::string& messages, const std::string& expected,
                      const std::string& fields = R"("thinking": {"type": "disabled"})") const {
    EXPECT_EQ(PromptFrom(kMessages,
                         R"({"max_tokens": 9, "messages": [)" + messages + "], " + fields + "}"),
              "<｜begin▁of▁sentence｜>" + expected);
  }
  void ExpectResponses(const std::string& items, const std::string& expected,
                       const std::string& fields = R"("reasoning": {"effort": "none"})") const {
    EXPECT_EQ(PromptFrom(kResponses, R"({"input": [)" + items + "], " + fields + "}"),
              "<｜begin▁of▁sentence｜>" + expected);
  }
};

std::string Said(std::string_view role, std::string_view text) {
  return fmt::format(R"({{"role": "{}", "content": "{}"}})", role, text);
}

// Calls and results as each API writes them.
std::string ChatCalls(const std::vector<std::string>& ids) {
  std::string calls;
  for (const std::string& id : ids) {
    calls += fmt::format(R"({}{{"id": "{}", "type": "function", "function": {{"name": "f"}}}})",
                         calls.empty() ? "" : ", ", id);
  }
  return R"({"role": "assistant", "content": null, "tool_calls": [)" + calls + "]}";
}
std::string ChatResult(std::string_view id, std::string_view text) {
  return fmt::format(R"({{"role": "tool", "tool_call_id": "{}", "content": "{}"}})", id, text);
}
std::string ToolUse(std::string_view id) {
  return fmt::format(R"({{"type": "tool_use", "id": "{}", "name": "f", "input": {{}}}})", id);
}
std::string ToolResult(std::string_view id, std::string_view text) {
  return fmt::format(R"({{"type": "tool_result", "tool_use_id": "{}", "content": "{}"}})", id,
                     text);
}
std::string TextBlock(std::string_view text) {
  return fmt::format(R"({{"type": "text", "text": "{}"}})", text);
}
std::string Blocks(std::string_view role, std::string_view blocks) {
  return fmt::format(R"({{"role": "{}", "content": [{}]}})", role, blocks);
}
std::string CallItem(std::string_view id) {
  return fmt::format(
      R"({{"type": "function_call", "call_id": "{}", "name": "f", "arguments": "{{}}"}})", id);
}
std::string OutputItem(std::string_view id, std::string_view text) {
  return fmt::format(R"({{"type": "function_call_output", "call_id": "{}", "output": "{}"}})", id,
                     text);
}
const std::string kGo = Said("user", "go");

std::string Head(std::string_view calls) {
  return "<｜User｜>go<｜Assistant｜></think>" + std::string(calls);
}
std::string Shown(std::string_view text) {
  return fmt::format("<tool_result>{}</tool_result>", text);
}
const std::string kAnswer = "<｜Assistant｜></think>";

TEST_F(ArrangedPromptsTest, EveryRequestBeginsATurn) {
  const std::string system = "<｜User｜>q\n\n<system-reminder>\nB\n</system-reminder>" + kAnswer;
  const std::string asked = Said("user", "q") + ", " + Said("system", "B");
  ExpectChat(asked, system);
  ExpectMessages(asked, system);
  ExpectResponses(asked, system);
  ExpectChat(Said("user", "q") + ", " + Said("developer", "B"), system);
  ExpectChat(Said("system", "s"), "s" + kAnswer);
  ExpectMessages(Said("system", "s"), "s" + kAnswer);
  ExpectResponses(Said("system", "s"), "s" + kAnswer);
  ExpectResponses("", "s" + kAnswer, R"("instructions": "s", "reasoning": {"effort": "none"})");
  ExpectChat(Said("user", "q") + ", " + Said("latest_reminder", "m"),
             "<｜User｜>q<｜latest_reminder｜>m" + kAnswer);
}

TEST_F(ArrangedPromptsTest, SystemTextsInTheMiddle) {
  const std::string middle = Said("system", "s") + ", " + Said("user", "q") + ", " +
                             Said("assistant", "x") + ", " + Said("system", "B") + ", " +
                             Said("user", "z");
  const std::string expected =
      "s<｜User｜>q<｜Assistant｜></think>x<｜end▁of▁sentence｜><｜User｜>"
      "<system-reminder>\nB\n</system-reminder>\n\nz" +
      kAnswer;
  ExpectChat(middle, expected);
  ExpectMessages(middle, expected);
  ExpectResponses(middle, expected);
}

TEST_F(ArrangedPromptsTest, LeadingSystemTextsStandBeforeTheTools) {
  const std::string body = R"({"messages": [)" + Said("system", "A") + ", " + Said("system", "B") +
                           ", " + Said("user", "q") +
                           R"(], "tools": [{"type": "function", "function": {"name": "f",
                           "strict": null, "x": 1}}]})";
  const std::string prompt = PromptFrom(kChatCompletions, body);
  EXPECT_TRUE(prompt.starts_with("<｜begin▁of▁sentence｜>A\n\nB\n\n## Tools\n")) << prompt;
  EXPECT_NE(prompt.find("\n{\"name\": \"f\", \"description\": \"\", \"parameters\": {}}\n"),
            std::string::npos)
      << prompt;
}

// The instructions and leading system items alone are the head there.
TEST_F(ArrangedPromptsTest, DevelopersOfResponsesAreTextOfTheUser) {
  const std::string developer = Said("developer", "D");
  const std::string user = Said("user", "Hi");
  ExpectResponses(developer + ", " + user, "<｜User｜>D\n\nHi" + kAnswer);
  ExpectResponses(user + ", " + developer, "<｜User｜>Hi\n\nD" + kAnswer);
  ExpectResponses(Said("system", "s") + ", " + developer + ", " + user,
                  "i\n\ns<｜User｜>D\n\nHi" + kAnswer,
                  R"("instructions": "i", "reasoning": {"effort": "none"})");
  ExpectResponses(kGo + ", " + CallItem("1") + ", " + developer + ", " + OutputItem("1", "a b"),
                  Head(kSingleCall) + "<｜User｜>" + Shown("a b") + "\n\nD" + kAnswer);
}

// Without nulls and other keys, and not as the client wrote them.
TEST_F(ArrangedPromptsTest, ToolsAreShownByThreeFields) {
  const std::string_view shown =
      "\n{\"name\": \"f\", \"description\": \"\", \"parameters\": {}}"
      "\n{\"name\": \"g\", \"description\": \"d\", \"parameters\": {\"b\": 10.0}}\n";
  const std::string functions[] = {
      R"("strict": null, "name": "f", "parameters": null, "description": null, "x": 1})",
      R"("parameters": {"b":1e1}, "strict": false, "description": "d", "name": "g"})"};
  const std::string user = Said("user", "q");
  const auto tools = [&](std::string_view begin, std::string_view end) {
    return fmt::format(R"("tools": [{0}{2}{1}, {0}{3}{1}]}})", begin, end, functions[0],
                       functions[1]);
  };
  EXPECT_THAT(PromptFrom(kChatCompletions, R"({"messages": [)" + user + "], " +
                                               tools(R"({"type": "function", "function": {)", "}")),
              HasSubstr(shown));
  EXPECT_THAT(PromptFrom(kResponses,
                         R"({"input": [)" + user + "], " + tools(R"({"type": "function", )", "")),
              HasSubstr(shown));
  EXPECT_THAT(PromptFrom(kMessages, R"({"messages": [)" + user + R"(], "tools": [
                  {"name": "f", "input_schema": {}, "description": null, "strict": false, "x": 1},
                  {"input_schema": {"b":1e1}, "cache_control": {}, "description": "d",
                   "name": "g"}]})"),
              HasSubstr(shown));
}

TEST_F(ArrangedPromptsTest, EveryTurnOfTheAssistantHasAHeader) {
  const auto thought = [](std::string_view text, std::string_view reasoning) {
    return fmt::format(R"({{"role": "assistant", "content": "{}", "reasoning_content": "{}"}})",
                       text, reasoning);
  };
  const std::string keeps =
      R"("enable_thinking": true, "chat_template_kwargs": {"drop_thinking": false})";
  ExpectChat(
      Said("user", "q") + ", " + thought("x", "r1") + ", " + thought("y", "r2"),
      "<｜User｜>q<｜Assistant｜><think>r1</think>x<｜end▁of▁sentence｜><｜Assistant｜><think>r2"
      "</think>y<｜end▁of▁sentence｜><｜Assistant｜><think>",
      keeps);
  ExpectChat(
      thought("x", "r1") + ", " + Said("user", "q"),
      "<｜Assistant｜><think>r1</think>x<｜end▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>",
      keeps);
  ExpectChat(thought("x", "r1") + ", " + Said("user", "q"),
             "<｜Assistant｜></think>x<｜end▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>",
             R"("enable_thinking": true)");
  const std::string answer_first = Said("assistant", "x") + ", " + Said("user", "q");
  const std::string expected = "<｜Assistant｜></think>x<｜end▁of▁sentence｜><｜User｜>q" + kAnswer;
  ExpectChat(answer_first, expected);
  ExpectMessages(answer_first, expected);
  ExpectResponses(answer_first, expected);
}

TEST_F(ArrangedPromptsTest, AnEmptyPrefixLeavesTheReasoningOpen) {
  const auto prefix = [](std::string_view fields) {
    return Said("user", "q") + R"(, {"role": "assistant", "content": "", )" + std::string(fields) +
           "}";
  };
  const std::string thinks = R"("enable_thinking": true)";
  ExpectChat(prefix(R"("reasoning_content": "why", "prefix": true)"),
             "<｜User｜>q<｜Assistant｜><think>why", thinks);
  ExpectChat(prefix(R"("prefix": true)"), "<｜User｜>q<｜Assistant｜><think>", thinks);
  ExpectChat(prefix(R"("reasoning_content": "why")"), "<｜User｜>q<｜Assistant｜><think>why",
             thinks + R"(, "continue_final_message": true)");
  ExpectMessages(
      Said("user", "q") + ", " + Blocks("assistant", R"({"type": "thinking", "thinking": "why"})"),
      "<｜User｜>q<｜Assistant｜><think>why", R"("thinking": {"type": "enabled"})");
}

// Reports 4 and 10.

TEST_F(ArrangedPromptsTest, TextBetweenACallAndItsResult) {
  const std::string expected = Head(kSingleCall) + "<｜User｜>" + Shown("a b") +
                               "\n\n<system-reminder>\nbe quick\n</system-reminder>" + kAnswer;
  ExpectChat(kGo + ", " + ChatCalls({"1"}) + ", " + Said("system", "be quick") + ", " +
                 ChatResult("1", "a b"),
             expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1")) + ", " +
                     Said("system", "be quick") + ", " + Blocks("user", ToolResult("1", "a b")),
                 expected);
  ExpectResponses(kGo + ", " + CallItem("1") + ", " + Said("system", "be quick") + ", " +
                      OutputItem("1", "a b"),
                  expected);
}

TEST_F(ArrangedPromptsTest, ReasoningBetweenACallAndItsResult) {
  ExpectResponses(
      kGo + ", " + CallItem("1") +
          R"(, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}, )" +
          OutputItem("1", "a b"),
      "<｜User｜>go<｜Assistant｜></think>" + std::string(kSingleCall) + "<｜User｜>" +
          Shown("a b") + "<｜Assistant｜></think><｜end▁of▁sentence｜>" + kAnswer);
}

TEST_F(ArrangedPromptsTest, MissingResult) {
  const std::string expected = Head(kPairOfCalls) + "<｜User｜>" + Shown("two") + kAnswer;
  ExpectChat(kGo + ", " + ChatCalls({"1", "2"}) + ", " + ChatResult("2", "two"), expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1") + ", " + ToolUse("2")) + ", " +
                     Blocks("user", ToolResult("2", "two")),
                 expected);
  ExpectResponses(kGo + ", " + CallItem("1") + ", " + CallItem("2") + ", " + OutputItem("2", "two"),
                  expected);
}

// The order of the calls is that of the model, whatever their ids and the order of the results are.
TEST_F(ArrangedPromptsTest, ResultsStandInTheOrderOfTheCalls) {
  const std::string expected =
      Head(kPairOfCalls) + "<｜User｜>" + Shown("nine") + "\n\n" + Shown("ten") + kAnswer;
  ExpectChat(kGo + ", " + ChatCalls({"c9", "c10"}) + ", " + ChatResult("c10", "ten") + ", " +
                 ChatResult("c9", "nine"),
             expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("c9") + ", " + ToolUse("c10")) + ", " +
                     Blocks("user", ToolResult("c10", "ten") + ", " + ToolResult("c9", "nine")),
                 expected);
  ExpectResponses(kGo + ", " + CallItem("c9") + ", " + CallItem("c10") + ", " +
                      OutputItem("c10", "ten") + ", " + OutputItem("c9", "nine"),
                  expected);
}

TEST_F(ArrangedPromptsTest, TwoResultsOfOneCall) {
  const std::string expected =
      Head(kSingleCall) + "<｜User｜>" + Shown("one") + "\n\n" + Shown("again") + kAnswer;
  const std::string one = ChatResult("1", "one");
  ExpectChat(kGo + ", " + ChatCalls({"1"}) + ", " + one + ", " + ChatResult("1", "again"),
             expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1")) + ", " +
                     Blocks("user", ToolResult("1", "one") + ", " + ToolResult("1", "again")),
                 expected);
  ExpectResponses(
      kGo + ", " + CallItem("1") + ", " + OutputItem("1", "one") + ", " + OutputItem("1", "again"),
      expected);
}

TEST_F(ArrangedPromptsTest, LateResult) {
  const std::string expected = Head(kSingleCall) +
                               "<｜User｜>w1<｜Assistant｜></think>x"
                               "<｜end▁of▁sentence｜><｜User｜>" +
                               Shown("one") + "\n\nw2" + kAnswer;
  const std::string between = Said("user", "w1") + ", " + Said("assistant", "x") + ", ";
  ExpectChat(kGo + ", " + ChatCalls({"1"}) + ", " + between + Said("user", "w2") + ", " +
                 ChatResult("1", "one"),
             expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1")) + ", " + between +
                     Blocks("user", TextBlock("w2") + ", " + ToolResult("1", "one")),
                 expected);
  ExpectResponses(kGo + ", " + CallItem("1") + ", " + between + Said("user", "w2") + ", " +
                      OutputItem("1", "one"),
                  expected);
}

TEST_F(ArrangedPromptsTest, ResultOfNoCall) {
  const std::string expected = "<｜User｜>" + Shown("lost") + "\n\ngo" + kAnswer;
  ExpectChat(kGo + ", " + ChatResult("9", "lost"), expected);
  ExpectMessages(kGo + ", " + Blocks("user", ToolResult("9", "lost")), expected);
  ExpectResponses(kGo + ", " + OutputItem("9", "lost"), expected);
  const std::string answered =
      "<｜User｜>go<｜Assistant｜></think>x<｜end▁of▁sentence｜><｜User｜>" + Shown("lost") +
      kAnswer;
  const std::string turns = kGo + ", " + Said("assistant", "x") + ", ";
  ExpectChat(turns + ChatResult("9", "lost"), answered);
  ExpectMessages(turns + Blocks("user", ToolResult("9", "lost")), answered);
  ExpectResponses(turns + OutputItem("9", "lost"), answered);
}

TEST_F(ArrangedPromptsTest, TextBeforeTheResult) {
  const std::string expected =
      Head(kSingleCall) + "<｜User｜>" + Shown("one") + "\n\nw1\n\nw2" + kAnswer;
  ExpectChat(kGo + ", " + ChatCalls({"1"}) + ", " + Said("user", "w1") + ", " + Said("user", "w2") +
                 ", " + ChatResult("1", "one"),
             expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1")) + ", " + Said("user", "w1") + ", " +
                     Blocks("user", TextBlock("w2") + ", " + ToolResult("1", "one")),
                 expected);
  ExpectResponses(kGo + ", " + CallItem("1") + ", " + Said("user", "w1") + ", " +
                      Said("user", "w2") + ", " + OutputItem("1", "one"),
                  expected);
}

TEST_F(ArrangedPromptsTest, CallAtTheEnd) {
  const std::string expected = Head(kSingleCall) + kAnswer;
  ExpectChat(kGo + ", " + ChatCalls({"1"}), expected);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUse("1")), expected);
  ExpectResponses(kGo + ", " + CallItem("1"), expected);
}

// A limit cut the call, and the client sends back what it got.

std::string CallWithParameter(std::string_view name, std::string_view text) {
  return fmt::format(
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"{}\" "
      "string=\"true\">{}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
      "<｜end▁of▁sentence｜>",
      name, text);
}
// `arguments` as a JSON string.
std::string ChatCall(std::string_view arguments) {
  return R"({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "f", "arguments": )" +
         std::string(arguments) + "}}]}";
}
std::string CutItem(std::string_view arguments) {
  return R"({"type": "function_call", "id": "fc_1", "call_id": "1", "name": "f",
      "status": "incomplete", "arguments": )" +
         std::string(arguments) + "}";
}
std::string ToolUseOf(std::string_view input) {
  return R"({"type": "tool_use", "id": "1", "name": "f", "input": )" + std::string(input) + "}";
}

TEST_F(ArrangedPromptsTest, CutArgumentsAreOneParameter) {
  struct Cut {
    std::string arguments;  // as a JSON string
    std::string shown;
  };
  for (const Cut& cut :
       {Cut{R"("{\"command\": \"rm -rf /tmp/bui")", R"({"command": "rm -rf /tmp/bui)"},
        Cut{R"("{\"a\": 1, \"b")", R"({"a": 1, "b)"}, Cut{R"("{\"a\": [1, 2")", R"({"a": [1, 2)"},
        Cut{R"("{\"n\": 4")", R"({"n": 4)"}, Cut{R"("{")", "{"}}) {
    const std::string expected = Head(CallWithParameter("arguments", cut.shown)) + "<｜User｜>" +
                                 Shown("not run") + "\n\ngo on" + kAnswer;
    const std::string goes_on = Said("user", "go on");
    ExpectChat(
        kGo + ", " + ChatCall(cut.arguments) + ", " + ChatResult("1", "not run") + ", " + goes_on,
        expected);
    ExpectResponses(
        kGo + ", " + CutItem(cut.arguments) + ", " + OutputItem("1", "not run") + ", " + goes_on,
        expected);
    // Clients of streams that keep the pieces of the input send them as a text.
    ExpectMessages(kGo + ", " + Blocks("assistant", ToolUseOf(cut.arguments)) + ", " +
                       Blocks("user", ToolResult("1", "not run") + ", " + TextBlock("go on")),
                   expected);
  }
}

// Reports 9 and 13: the same on all APIs, as a client cannot take them back.
TEST_F(ArrangedPromptsTest, AnyArguments) {
  const std::string none = Head(kSingleCall);
  const auto raw = [](std::string_view text) { return Head(CallWithParameter("arguments", text)); };
  const std::string a = Head(
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
      "string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
      "<｜end▁of▁sentence｜>");
  const std::pair<std::string, std::string> cases[] = {
      {R"("")", none},
      {"null", none},
      {R"("null")", none},
      {"{}", none},
      {R"({"a": 1})", a},
      {R"("{\"a\":1}")", a},
      {R"("\"{\\\"a\\\":1}\"")", a},
      {"[]", raw("[]")},
      {R"("[1]")", raw("[1]")},
      {R"("x")", raw("x")},
      {"5", raw("5")},
      {"true", raw("true")},
  };
  for (const auto& [arguments, call] : cases) {
    const std::string expected = call + "<｜User｜>" + Shown("r") + kAnswer;
    ExpectChat(kGo + ", " + ChatCall(arguments) + ", " + ChatResult("1", "r"), expected);
    ExpectResponses(kGo + ", " + CutItem(arguments) + ", " + OutputItem("1", "r"), expected);
    ExpectMessages(kGo + ", " + Blocks("assistant", ToolUseOf(arguments)) + ", " +
                       Blocks("user", ToolResult("1", "r")),
                   expected);
  }
  ExpectMessages(
      kGo + ", " + Blocks("assistant", R"({"type": "tool_use", "id": "1", "name": "f"})"),
      none + kAnswer);
}

TEST_F(ArrangedPromptsTest, EmptyNamesAndIds) {
  const std::string expected = Head(
                                   "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"\">\n\n"
                                   "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
                                   "<｜end▁of▁sentence｜>") +
                               "<｜User｜>" + Shown("unknown tool") + kAnswer;
  ExpectChat(kGo + R"(, {"role": "assistant", "content": null, "tool_calls": [{"id": "",
                 "type": "function", "function": {"name": "", "arguments": "{}"}}]}, )" +
                 ChatResult("", "unknown tool"),
             expected);
  ExpectResponses(
      kGo + R"(, {"type": "function_call", "call_id": "", "name": "", "arguments": "{}"}, )" +
          OutputItem("", "unknown tool"),
      expected);
  ExpectMessages(
      kGo + ", " +
          Blocks("assistant", R"({"type": "tool_use", "id": "", "name": "", "input": {}})") + ", " +
          Blocks("user", ToolResult("", "unknown tool")),
      expected);
  const std::string nothing = "<｜User｜>go<｜Assistant｜></think><｜end▁of▁sentence｜><｜User｜>z";
  for (const char* calls : {"[]", "null"}) {
    ExpectChat(kGo + R"(, {"role": "assistant", "content": null, "tool_calls": )" + calls + "}, " +
                   Said("user", "z"),
               nothing + kAnswer);
  }
}

TEST_F(ArrangedPromptsTest, CutCallsWithoutAResult) {
  const std::string arguments = R"("{\"a\": \"x")";
  const std::string call = Head(CallWithParameter("arguments", R"({"a": "x)"));
  ExpectChat(kGo + ", " + ChatCall(arguments), call + kAnswer);
  ExpectResponses(kGo + ", " + CutItem(arguments), call + kAnswer);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUseOf(arguments)), call + kAnswer);
  const std::string asked = call + "<｜User｜>go on" + kAnswer;
  const std::string goes_on = ", " + Said("user", "go on");
  ExpectChat(kGo + ", " + ChatCall(arguments) + goes_on, asked);
  ExpectResponses(kGo + ", " + CutItem(arguments) + goes_on, asked);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUseOf(arguments)) + goes_on, asked);
}

// Whole answers of messages leave the unfinished parameter out.
TEST_F(ArrangedPromptsTest, CutInputsAreObjects) {
  const std::string result = Blocks("user", ToolResult("1", "not run"));
  const std::string answered = "<｜User｜>" + Shown("not run") + kAnswer;
  ExpectMessages(
      kGo + ", " + Blocks("assistant", ToolUseOf(R"({"path": "a.txt"})")) + ", " + result,
      Head(CallWithParameter("path", "a.txt")) + answered);
  ExpectMessages(kGo + ", " + Blocks("assistant", ToolUseOf("{}")) + ", " + result,
                 Head(kSingleCall) + answered);
}

}  // namespace
}  // namespace fathom::api
