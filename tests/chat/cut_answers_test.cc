// Answers that a limit cuts: calls end where the model was cut, and no text is lost
// (docs/spec/encoding.md section 9.2).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "chat/literals.h"
#include "chat/parser.h"
#include "tests/chat/answers.h"
#include "tests/chat/golden.h"

namespace fathom::chat {
namespace {

using testing::AnswerStream;
using testing::Json;
using testing::ReadInPieces;
using testing::Show;

ToolSchemas ToolsOf(std::string_view function_json) {
  return *ToolSchemas::Make(
      std::vector<ToolSpec>{{.name = "f", .function_json = std::string(function_json)}});
}

// Reads a text that a limit ended, whole and byte by byte, with arguments sent at once and as they
// come: all four ways must agree.
Answer ReadCut(std::string_view text, AnswerParserOptions options = {}) {
  options.stream_arguments = false;
  const Answer whole = ReadInPieces(text, {}, options, AnswerEnd::kLength);
  std::vector<std::size_t> cuts(text.size());
  std::iota(cuts.begin(), cuts.end(), std::size_t{0});
  EXPECT_EQ(Show(ReadInPieces(text, cuts, options, AnswerEnd::kLength)), Show(whole)) << text;
  options.stream_arguments = true;
  for (const std::vector<std::size_t>& pieces : {cuts, {}}) {
    const Answer stream = ReadInPieces(text, pieces, options, AnswerEnd::kLength);
    EXPECT_EQ(Show(stream), Show(whole)) << text;
    EXPECT_EQ(stream.cut_call, whole.cut_call) << text;
  }
  EXPECT_EQ(whole.finish_reason, ChatFinishReason::kLength);
  return whole;
}

constexpr std::string_view kOpener = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";

std::string Parameter(std::string_view name, std::string_view is_string, std::string_view value) {
  return fmt::format("<｜DSML｜parameter name=\"{}\" string=\"{}\">{}</｜DSML｜parameter>\n", name,
                     is_string, value);
}

// An open parameter.
std::string Open(std::string_view name, std::string_view is_string, std::string_view value) {
  return fmt::format("<｜DSML｜parameter name=\"{}\" string=\"{}\">{}", name, is_string, value);
}

struct CutCall {
  std::string text;       // behind kOpener
  std::string arguments;  // as the model was cut
  std::string finished;   // the object of the finished parameters
};

void ExpectCut(const CutCall& cut, const AnswerParserOptions& options = {}) {
  const Answer answer = ReadCut(std::string(kOpener) + cut.text, options);
  ASSERT_EQ(answer.tool_calls.size(), 1U) << cut.text;
  EXPECT_EQ(answer.tool_calls[0].arguments, cut.arguments) << cut.text;
  EXPECT_TRUE(answer.cut_call.has_value()) << cut.text;
  EXPECT_EQ(FinishedArguments(answer, 0), cut.finished) << cut.text;
  EXPECT_EQ(answer.content, "");
}

TEST(CutCalls, ArgumentsEndWhereTheModelWasCut) {
  const std::string a = Parameter("a", "true", "x");
  for (const CutCall& cut : std::vector<CutCall>{
           {"", "", "{}"},
           {"<｜DSML｜param", "", "{}"},
           {Open("a", "true", ""), R"({"a": ")", "{}"},
           {Open("a", "true", "rm -rf /tmp/bui"), R"({"a": "rm -rf /tmp/bui)", "{}"},
           {Open("a", "true", "say \"hi\"\n"), R"({"a": "say \"hi\"\n)", "{}"},
           {Open("a", "true", "x</｜DSML｜para"), R"({"a": "x)", "{}"},
           {Open("a", "true", "x</"), R"({"a": "x)", "{}"},
           {Open("a", "true", "x</t"), R"({"a": "x</t)", "{}"},
           {Open("a", "true", "x<p"), R"({"a": "x<p)", "{}"},
           {a, R"({"a": "x")", R"({"a": "x"})"},
           {a + "</", R"({"a": "x")", R"({"a": "x"})"},
           {a + Open("b", "true", ""), R"({"a": "x", "b": ")", R"({"a": "x"})"},
           {a + Open("b", "false", ""), R"({"a": "x", "b": )", R"({"a": "x"})"},
           {a + Open("b", "false", "[1, 2"), R"({"a": "x", "b": [1, 2)", R"({"a": "x"})"},
           {a + Open("b", "false", " {\"c\": \"d "), R"({"a": "x", "b": {"c": "d)",
            R"({"a": "x"})"},
           {a + Open("b", "false", "5"), R"({"a": "x", "b": 5)", R"({"a": "x"})"},
           {a + Open("b", "false", "oops"), R"({"a": "x", "b": "oops)", R"({"a": "x"})"},
           {a + Parameter("b", "false", "5"), R"({"a": "x", "b": 5)", R"({"a": "x", "b": 5})"},
           // A repeated parameter that is cut leaves the finished one.
           {a + Open("a", "true", "y"), R"({"a": "x")", R"({"a": "x"})"},
       }) {
    ExpectCut(cut);
  }
}

TEST(CutCalls, AllArgumentsInOneObject) {
  for (const CutCall& cut : std::vector<CutCall>{
           {R"({"a": "x", "b": "ha)", R"({"a": "x", "b": "ha)", R"({"a": "x"})"},
           {R"({"a": [1, "\",)", R"({"a": [1, "\",)", "{}"},
           {"{", "{", "{}"},
           {"{oops, 1", "{oops, 1", "{}"},
           // The model closed the object, but not the call: parameters might follow.
           {"{\"a\": 1}\n", R"({"a": 1)", R"({"a": 1})"},
       }) {
    ExpectCut(cut);
  }
  const AnswerParserOptions options = {
      .tools = ToolsOf(R"({"name":"f","parameters":{"properties":{"a":{"type":"string"}}}})")};
  for (const CutCall& cut : std::vector<CutCall>{
           {Open("input", "true", R"({"a": "x", "b": 1)"), R"({"a": "x", "b": 1)", R"({"a": "x"})"},
           {Open("input", "true", "not an object"), R"({"input": "not an object)", "{}"},
           {Parameter("input", "true", R"({"a": "x"})"), R"({"a": "x")", R"({"a": "x"})"},
           {Parameter("input", "true", "text"), R"({"input": "text")", R"({"input": "text"})"},
       }) {
    ExpectCut(cut, options);
  }
}

// Behind the token ｜DSML｜ of its closer nothing can be added to a call: the model has ended it.
TEST(CutCalls, ACallWhoseCloserHasBegunIsWhole) {
  const std::string text = std::string(kOpener) + Parameter("a", "true", "x") + "</｜DSML｜";
  for (const std::string end : {"", "inv", "invoke", "invoke>\n</｜DSML｜tool"}) {
    const Answer answer = ReadCut(text + end);
    ASSERT_EQ(answer.tool_calls.size(), 1U);
    EXPECT_EQ(answer.tool_calls[0].arguments, R"({"a": "x"})") << end;
    EXPECT_FALSE(answer.cut_call) << end;
  }
}

// Text that an end-of-sentence token or a stop string ends is a call that the model ended so.
TEST(CutCalls, OtherEndsCloseTheArguments) {
  const std::string text = std::string(kOpener) + Open("a", "true", "x");
  const Answer answer = ReadInPieces(text, {}, {}, AnswerEnd::kStop);
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"a": "x"})");
  EXPECT_FALSE(answer.cut_call);
  EXPECT_EQ(answer.finish_reason, ChatFinishReason::kStop);
}

// Only the last call is cut: calls that the model ended stay whole.
TEST(CutCalls, EarlierCallsAreWhole) {
  const std::string text = std::string(kOpener) + Parameter("a", "true", "x") +
                           "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n" +
                           Open("b", "true", "y");
  const Answer answer = ReadCut(text);
  ASSERT_EQ(answer.tool_calls.size(), 2U);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"a": "x"})");
  EXPECT_EQ(answer.tool_calls[1].arguments, R"({"b": "y)");
  EXPECT_EQ(FinishedArguments(answer, 0), R"({"a": "x"})");
  EXPECT_EQ(FinishedArguments(answer, 1), "{}");
}

// The place is within ｜DSML｜, which is one token, or within a character.
bool IsWithinToken(std::string_view text, std::size_t place) {
  const std::size_t begin = text.substr(0, place + kDsml.size() - 1).rfind(kDsml);
  const bool is_within_mark = begin != text.npos && begin < place && place < begin + kDsml.size();
  return is_within_mark || !IsValidUtf8(text.substr(0, place));
}

TEST(CutCalls, EachCutIsTheBeginningOfTheNext) {
  const std::string call = Parameter("a", "true", "if a <b:\n  \"é\" </p> 日本\n") +
                           Parameter("b", "false", "{\"k\": [1, 2.5e3], \"l\": \"<t>\"}") +
                           Parameter("c", "true", "") + "</｜DSML｜invoke>";
  const std::string text = "Hm.\n\n" + std::string(kOpener) + call + "\n</｜DSML｜tool_calls>";
  const Answer full = ReadInPieces(text, {}, {}, AnswerEnd::kStop);
  ASSERT_EQ(full.tool_calls.size(), 1U);
  std::string longest;
  for (std::size_t length = 0; length < text.size(); ++length) {
    if (IsWithinToken(text, length)) continue;
    const Answer part = ReadCut(text.substr(0, length));
    const std::string arguments = part.tool_calls.empty() ? "" : part.tool_calls[0].arguments;
    EXPECT_TRUE(full.tool_calls[0].arguments.starts_with(arguments)) << arguments;
    EXPECT_TRUE(arguments.starts_with(longest)) << arguments;
    longest = arguments;
    const bool is_whole =
        text.substr(0, length).find("</｜DSML｜", text.rfind("</｜DSML｜invoke>")) != text.npos;
    EXPECT_EQ(Json::accept(arguments), is_whole) << arguments;
  }
  EXPECT_EQ(longest, full.tool_calls[0].arguments);
}

// Text that a stream holds back is text at the end.
TEST(CutText, TheEndIsKept) {
  struct End {
    std::string_view text;
    std::string_view stopped;  // the content where the model ended
    std::string_view cut;      // the content where a limit did
  };
  for (const End& end : std::vector<End>{
           {"a <", "a <", "a <"},
           {"a\n\n<", "a\n\n<", "a\n\n<"},
           {"a\n\n</", "a\n\n</", "a\n\n</"},
           {"a <par", "a <par", "a <par"},
           {"<p>x</p>\n</t", "<p>x</p>\n</t", "<p>x</p>\n</t"},
           {"a </thi", "a </thi", "a </thi"},
           {"a <thi", "a <thi", "a <thi"},
           {"a <｜", "a <｜", "a <｜"},
           {"a <|DS", "a <|DS", "a <|DS"},
           {"a <invoke name=\"f\">\n", "a <invoke name=\"f\">\n", "a <invoke name=\"f\">\n"},
           {"Write <invoke name=\"x and so on", "Write <invoke name=\"x and so on",
            "Write <invoke name=\"x and so on"},
           // Behind the token ｜DSML｜ comes markup that the limit cut.
           {"Write <｜DSML｜invoke name=\"x and so on", "Write <｜DSML｜invoke name=\"x and so on",
            "Write "},
           {"a\n\n<｜DSML｜", "a\n\n<｜DSML｜", "a"},
           {"a\n\n<｜DSML｜inv", "a\n\n<｜DSML｜inv", "a"},
           {"a\n\n</｜DSML｜inv", "a\n\n</｜DSML｜inv", "a"},
           {"use <｜DSML｜tool_calls>", "use <｜DSML｜tool_calls>", "use "},
           {"a\n<｜｜DSML｜｜inv", "a\n<｜｜DSML｜｜inv", "a"},
           // In other spellings it is not that token.
           {"a <|DSML|tool_c", "a <|DSML|tool_c", "a <|DSML|tool_c"},
       }) {
    for (const bool streams : {false, true}) {
      const AnswerParserOptions options = {.stream_arguments = streams};
      EXPECT_EQ(ReadInPieces(end.text, {end.text.size() / 2}, options, AnswerEnd::kStop).content,
                end.stopped);
      EXPECT_EQ(ReadInPieces(end.text, {end.text.size() / 2}, options, AnswerEnd::kLength).content,
                end.cut)
          << end.text;
    }
  }
}

TEST(CutText, WithoutToolsAllOfItIsText) {
  for (const std::string text : {"a <｜DSML｜tool_c", "a\n\n<｜DSML｜", "a </thi"}) {
    EXPECT_EQ(ReadInPieces(text, {}, {.tools = ToolSchemas()}, AnswerEnd::kLength).content, text);
  }
}

TEST(CutText, TheEndOfTheReasoningIsKept) {
  const AnswerParserOptions options = {.starts_in_reasoning = true};
  for (const std::string text : {"a <", "a\n</thi", "a\n\n</", "so <p"}) {
    EXPECT_EQ(ReadInPieces(text, {}, options, AnswerEnd::kLength).reasoning_content, text);
    EXPECT_EQ(ReadInPieces(text, {}, options, AnswerEnd::kStop).reasoning_content, text);
  }
}

// A stream holds a bracket back, and the newlines before it, until it is known what follows.
TEST(CutText, StreamsHoldABracketBack) {
  AnswerStream stream({});
  stream.Feed("a\n\n<");
  EXPECT_EQ(stream.answer().content, "a");
  stream.Feed("p>");
  EXPECT_EQ(stream.answer().content, "a\n\n<p>");
  stream.Feed("\n</");
  EXPECT_EQ(stream.answer().content, "a\n\n<p>");
  EXPECT_EQ(stream.Finish(AnswerEnd::kLength).content, "a\n\n<p>\n</");
}

}  // namespace
}  // namespace fathom::chat
