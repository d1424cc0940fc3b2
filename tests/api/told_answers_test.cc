// One answer told by the three chat APIs, whole and as a stream: calls that a limit cuts, ends that
// look like tags, deviations in the markup of calls. docs/spec/encoding.md 9.2 and 12.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/api/api_model.h"
#include "tests/api/api_streams.h"
#include "tests/api/read_answers.h"
#include "tests/chat/answers.h"

namespace fathom::api {
namespace {

using Json = nlohmann::ordered_json;
using testing::AnswerWords;
using testing::Block;
using testing::kCall;
using testing::ReadAnswer;

enum class End { kStop, kCalls, kLength };

struct TextCase {
  std::string name;
  std::string text;  // after </think>, unless it thinks
  bool thinks = false;
  End end = End::kStop;
  std::string reasoning{};
  std::string content{};
  std::vector<std::string> arguments{};  // of the calls of f
  std::string input{};  // of the last call in whole messages; "": the arguments are an object
};

// A parameter without its closer.
std::string OpenParameter(std::string_view name, std::string_view value, bool is_string = true) {
  return std::string("<｜DSML｜parameter name=\"")
      .append(name)
      .append(is_string ? "\" string=\"true\">" : "\" string=\"false\">")
      .append(value);
}
constexpr std::string_view kOpener = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
constexpr std::string_view kCloser = "</｜DSML｜parameter>\n";

// The text of a call whose parameters are cut.
std::string CutCall(const std::string& parameters) { return std::string(kOpener) + parameters; }
std::string First() { return OpenParameter("a", "x").append(kCloser); }

const TextCase kCutCalls[] = {
    {.name = "AString",
     .text = CutCall(OpenParameter("a", "rm -rf /tmp/bui")),
     .end = End::kLength,
     .arguments = {R"({"a": "rm -rf /tmp/bui)"},
     .input = "{}"},
    {.name = "AnEscape",
     .text = CutCall(OpenParameter("a", "say \"hi\" \\ and\n")),
     .end = End::kLength,
     .arguments = {R"({"a": "say \"hi\" \\ and\n)"},
     .input = "{}"},
    {.name = "ItsCloser",
     .text = "See." + CutCall(OpenParameter("a", "half</｜DSML｜para")),
     .end = End::kLength,
     .content = "See.",
     .arguments = {R"({"a": "half)"},
     .input = "{}"},
    {.name = "AList",
     .text = CutCall(First() + OpenParameter("b", "[1, 2", false)),
     .end = End::kLength,
     .arguments = {R"({"a": "x", "b": [1, 2)"},
     .input = R"({"a":"x"})"},
    {.name = "ANumber",
     .text = CutCall(OpenParameter("b", "4", false)),
     .end = End::kLength,
     .arguments = {R"({"b": 4)"},
     .input = "{}"},
    {.name = "BetweenParameters",
     .text = CutCall(First()),
     .end = End::kLength,
     .arguments = {R"({"a": "x")"},
     .input = R"({"a":"x"})"},
    {.name = "AnAttribute",
     .text = CutCall("<｜DSML｜parameter name=\"a\" string=\"tr"),
     .end = End::kLength,
     .arguments = {""},
     .input = "{}"},
    {.name = "TheNameOfTheCall",
     .text = "Hm.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke na",
     .end = End::kLength,
     .content = "Hm."},
    {.name = "TheSecondCall",
     .text = "\n\n<｜DSML｜tool_calls>\n" + std::string(kCall) + "\n<｜DSML｜invoke name=\"f\">\n" +
             OpenParameter("a", "y"),
     .end = End::kLength,
     .arguments = {R"({"a": "x"})", R"({"a": "y)"},
     .input = "{}"},
    {.name = "AfterACall",
     .text = "\n\n<｜DSML｜tool_calls>\n" + std::string(kCall) + "\n",
     .end = End::kLength,
     .arguments = {R"({"a": "x"})"}},
};

const TextCase kEnds[] = {
    {.name = "ATag", .text = "<p>x</p>\n</t", .content = "<p>x</p>\n</t"},
    {.name = "ABracket", .text = "a\n\n<", .end = End::kLength, .content = "a\n\n<"},
    {.name = "ACloser", .text = "a\n\n</", .end = End::kLength, .content = "a\n\n</"},
    {.name = "AnInvoke",
     .text = "Write <invoke name=\"x and so on",
     .content = "Write <invoke name=\"x and so on"},
    {.name = "TheTokenOfMarkup", .text = "a\n\n<｜DSML｜", .end = End::kLength, .content = "a"},
    {.name = "ACutCloser", .text = "x</｜DSML｜tool_c", .end = End::kLength, .content = "x"},
    {.name = "ClosersInTheReasoning",
     .text = "I close </｜DSML｜parameter></｜DSML｜invoke>",
     .thinks = true,
     .reasoning = "I close </｜DSML｜parameter></｜DSML｜invoke>"},
    {.name = "AMention",
     .text = "I write <｜DSML｜tool_calls> here",
     .content = "I write <｜DSML｜tool_calls> here"},
};

const TextCase kMarkup[] = {
    {.name = "ABlockThatEndsTheReasoning",
     .text = "r. " + Block(kCall),
     .thinks = true,
     .end = End::kCalls,
     .reasoning = "r. ",
     .arguments = {R"({"a": "x"})"}},
    {.name = "JunkInABlock",
     .text = "\n\n" + Block("junk\n" + std::string(kCall)),
     .end = End::kCalls,
     .arguments = {R"({"a": "x"})"}},
    {.name = "JunkInACall",
     .text = CutCall("junk\n" + First() + "junk</｜DSML｜invoke>\n</｜DSML｜tool_calls>"),
     .end = End::kCalls,
     .arguments = {R"({"a": "x"})"}},
    {.name = "OtherAttributes",
     .text = "\n\n" + Block("<｜DSML｜invoke name=\"f\" id=\"1\">\n<｜DSML｜parameter name = \"a\" "
                            "type=\"string\" string='true'>x</｜DSML｜parameter>\n"
                            "</｜DSML｜invoke>"),
     .end = End::kCalls,
     .arguments = {R"({"a": "x"})"}},
    {.name = "OddNamesOfParameters",
     .text = CutCall(OpenParameter("shipping address", "a\n日本").append(kCloser) +
                     OpenParameter(" string= mode ", "{\"on\": true}", false).append(kCloser) +
                     OpenParameter("", "e").append(kCloser) +
                     "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"),
     .end = End::kCalls,
     .arguments = {R"({"shipping address": "a\n日本", " string= mode ": {"on": true}, "": "e"})"}},
    {.name = "ReasoningAfterText",
     .text = "I look.<think>hm</think>\n\n" + Block(kCall),
     .end = End::kCalls,
     .content = "I look.hm",
     .arguments = {R"({"a": "x"})"}},
};

class ToldAnswersTest : public testing::ApiModelTest,
                        public ::testing::WithParamInterface<AnswerWords> {
 protected:
  ToldAnswersTest() { model_.limits.max_context = 8192; }

  static const Api* api() { return GetParam().api; }

  static std::string MakeBody(bool thinks) {
    const std::string schema = R"({"type": "object"})";
    std::string tool = R"({"type": "function", "name": "f", "parameters": )" + schema + "}";
    if (api() == &kChatCompletions) tool = R"({"type": "function", "function": )" + tool + "}";
    if (api() == &kMessages) tool = R"({"name": "f", "input_schema": )" + schema + "}";
    return (api() == &kResponses ? R"({"input": "Hi", "max_output_tokens": 1)"
                                 : R"({"messages": [{"role": "user", "content": "Hi"}],
                                       "max_tokens": 1)") +
           std::string(R"(, "thinking": )") + (thinks ? "true" : "false") + R"(, "tools": [)" +
           tool + "]}";
  }

  static void Compare(const ReadAnswer& answer, const TextCase& expected,
                      const std::vector<std::string>& arguments) {
    EXPECT_EQ(answer.reasoning, expected.reasoning);
    EXPECT_EQ(answer.content, expected.content);
    EXPECT_EQ(answer.finish, expected.end == End::kStop    ? GetParam().stop
                             : expected.end == End::kCalls ? GetParam().calls
                                                           : GetParam().length);
    ASSERT_EQ(answer.calls.size(), arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      EXPECT_EQ(answer.calls[i].name, "f");
      EXPECT_EQ(answer.calls[i].arguments, arguments[i]);
    }
  }

  void Check(const TextCase& expected) const {
    SCOPED_TRACE(expected.name);
    const ApiResult<ApiCall> call = api()->prepare(MakeBody(expected.thinks), model_);
    ASSERT_TRUE(call) << call.error().message;
    const FinishReason finish =
        expected.end == End::kLength ? FinishReason::kLength : FinishReason::kStop;
    const testing::ToldAnswer told = testing::Tell(*call, model_, Events(expected.text, finish));
    Compare(testing::ReadToldStream(api(), told.stream), expected, expected.arguments);
    std::vector<std::string> whole = expected.arguments;
    if (api() == &kMessages && !whole.empty()) {  // an input is an object
      if (!expected.input.empty()) whole.back() = expected.input;
      for (std::string& input : whole) input = Json::parse(input).dump();
    }
    Compare(testing::ReadToldWhole(api(), told.whole), expected, whole);
  }
};

TEST_P(ToldAnswersTest, CutCalls) {
  for (const TextCase& one : kCutCalls) Check(one);
}

TEST_P(ToldAnswersTest, Ends) {
  for (const TextCase& one : kEnds) Check(one);
}

TEST_P(ToldAnswersTest, Markup) {
  for (const TextCase& one : kMarkup) Check(one);
}

// A small limit ends the answer in its reasoning: all its tokens are counted there.
TEST_P(ToldAnswersTest, ALimitInTheReasoning) {
  Check({.name = "", .text = "Let me", .thinks = true, .end = End::kLength, .reasoning = "Let me"});
  const ApiResult<ApiCall> call = api()->prepare(MakeBody(true), model_);
  ASSERT_TRUE(call);
  const testing::ToldAnswer told =
      testing::Tell(*call, model_, Events("Let me", FinishReason::kLength));
  const Json& usage = told.whole["usage"];
  const std::size_t n_tokens = Tokens("Let me").size();
  if (api() == &kMessages) {
    ASSERT_EQ(told.whole["content"].size(), 1U) << "no empty text";
    EXPECT_EQ(usage["output_tokens"], n_tokens);
  } else if (api() == &kResponses) {
    EXPECT_EQ(usage["output_tokens"], n_tokens);
    EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], n_tokens);
    EXPECT_EQ(told.whole["output"][0]["status"], "incomplete");
  } else {
    EXPECT_EQ(usage["completion_tokens"], n_tokens);
    EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], n_tokens);
  }
}

// The sums of several choices, and deltas without nulls, which typed clients refuse.
TEST_P(ToldAnswersTest, TwoChoicesInTheirReasoning) {
  if (api() != &kChatCompletions) return;  // the others have one
  std::string body = MakeBody(true);
  const ApiResult<ApiCall> call =
      api()->prepare(body.insert(1, R"("n": 2, "stream": true, )"), model_);
  ASSERT_TRUE(call) << call.error().message;
  std::vector<StreamEvent> events = Events("Let me", FinishReason::kLength);
  const std::size_t n_tokens = Tokens("Let me").size();
  for (std::size_t i = 0, n = events.size(); i < n; ++i) {
    events.push_back(events[i]);
    events.back().choice = 1;
  }
  const testing::ToldAnswer told = testing::Tell(*call, model_, events);
  EXPECT_EQ(told.whole["usage"]["completion_tokens"], 2 * n_tokens);
  EXPECT_EQ(told.whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 2 * n_tokens);
  for (const Json& chunk : testing::Chunks(told.stream)) {
    for (const Json& value : chunk["choices"][0]["delta"]) EXPECT_FALSE(value.is_null()) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Apis, ToldAnswersTest,
                         ::testing::Values(testing::kChatWords, testing::kResponsesWords,
                                           testing::kMessagesWords),
                         [](const auto& words) { return words.param.name; });

}  // namespace
}  // namespace fathom::api
