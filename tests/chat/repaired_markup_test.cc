// Deviations in the markup of calls: attributes, junk, calls at the end of the reasoning
// (docs/spec/encoding.md section 9.2).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "chat/parser.h"
#include "tests/chat/answers.h"

namespace fathom::chat {
namespace {

using testing::AnswerStream;
using testing::Block;
using testing::kCall;
using testing::kInReasoning;
using testing::Read;

void ExpectOneCall(const Answer& answer, std::string_view arguments, std::string_view text) {
  ASSERT_EQ(answer.tool_calls.size(), 1U) << text;
  EXPECT_EQ(answer.tool_calls[0].name, "f") << text;
  EXPECT_EQ(answer.tool_calls[0].arguments, arguments) << text;
  EXPECT_EQ(answer.content, "") << text;
  EXPECT_EQ(answer.finish_reason, ChatFinishReason::kToolCalls) << text;
}

TEST(RepairedMarkup, AttributesOfCalls) {
  for (const std::string attributes :
       {" name=\"f\"", " name=\"f\" id=\"1\"", " name=\"f\" id='1' x-y=\"\"", " name = \"f\"",
        " name='f'", " name=\"f\"  \n id=\"1\" ", " name=\"f\" type=\"a b\" string=\"true\""}) {
    const std::string call = std::string(kCall).replace(kCall.find(" name"), 9, attributes);
    ExpectOneCall(Read(Block(call)), R"({"a": "x"})", attributes);
  }
}

TEST(RepairedMarkup, AttributesOfParameters) {
  struct Case {
    std::string_view attributes;
    std::string_view arguments;
  };
  for (const Case& parameter : std::vector<Case>{
           {"name=\"a\" type=\"string\" string=\"true\"", R"({"a": "5"})"},
           {"name=\"a\" string=\"true\" type=\"string\"", R"({"a": "5"})"},
           {"name=\"a\" type=\"integer\"", R"({"a": 5})"},
           {"name=\"a\" string='true'", R"({"a": "5"})"},
           {"name=\"a\" string='false'", R"({"a": 5})"},
           {"name=\"a\" string=\"True\"", R"({"a": "5"})"},
           {"name=\"a\" string=\"False\"", R"({"a": 5})"},
           {"name=\"a\" string=\"maybe\"", R"({"a": 5})"},
           {"name = \"a\" string = \"true\"", R"({"a": "5"})"},
           {"name='a' string='true'", R"({"a": "5"})"},
           // A name keeps quotes and blanks that begin no attribute.
           {"name=\"a string\" string=\"true\"", R"({"a string": "5"})"},
           {"name=\"a\" b\" string=\"true\"", R"({"a\" b": "5"})"},
           {"name=\"string=\" string=\"true\"", R"({"string=": "5"})"},
           {"name=\"it's\" string=\"true\"", R"({"it's": "5"})"},
       }) {
    const std::string text = Block(
        fmt::format("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter {}>5</｜DSML｜parameter>\n"
                    "</｜DSML｜invoke>",
                    parameter.attributes));
    ExpectOneCall(Read(text), parameter.arguments, text);
  }
}

TEST(RepairedMarkup, JunkInABlockIsSkipped) {
  const std::string parameter = std::string(kCall.substr(kCall.find('\n') + 1));
  const std::string opener = "<｜DSML｜invoke name=\"f\">";
  for (const std::string& text : {
           Block("junk\n" + std::string(kCall)),
           Block("junk <b> </think> 1 < 2\n" + std::string(kCall)),
           Block(opener + "\njunk\n" + parameter),
           Block("junk\n" + opener + "junk" + parameter),
           Block(std::string(kCall) + "\njunk"),
       }) {
    ExpectOneCall(Read(text), R"({"a": "x"})", text);
  }
  ExpectOneCall(Read(Block(opener + "garbage</｜DSML｜invoke>")), "{}", "garbage");
  const Answer two =
      Read("c\n\n" + Block(std::string(kCall) + "\njunk\n" + opener + "\njunk\n" + parameter));
  EXPECT_EQ(two.tool_calls.size(), 2U);
  EXPECT_EQ(two.content, "c");
}

TEST(RepairedMarkup, AMentionIsNoCall) {
  const std::string opener = "<｜DSML｜invoke name=\"f\">";
  for (const std::string& text : {
           std::string("I write <｜DSML｜tool_calls> here"),
           "A block is <｜DSML｜tool_calls>, a call " + opener + ", and so on.",
           "A call is " + opener + " with parameters",
           "<｜DSML｜tool_calls>" + std::string(600, 'j') + opener + " is too far away",
           Block("nothing to call"),
       }) {
    const Answer answer = Read(text);
    EXPECT_EQ(answer.tool_calls.size(), 0U) << text;
    EXPECT_EQ(answer.content, text);
  }
  // A block behind the mention counts.
  const Answer answer = Read("I write <｜DSML｜tool_calls> here:\n\n" + Block(kCall));
  EXPECT_EQ(answer.content, "I write <｜DSML｜tool_calls> here:");
  EXPECT_EQ(answer.tool_calls.size(), 1U);
}

TEST(CallsInReasoning, AWholeBlockThatEndsTheAnswerCounts) {
  for (const std::string end : {"", "\n", " \n\n", "</think>", "\n</think>\n"}) {
    const Answer answer = Read("r. " + Block(kCall) + end, kInReasoning);
    ExpectOneCall(answer, R"({"a": "x"})", end);
    EXPECT_EQ(answer.reasoning_content, "r. ");
  }
  const Answer two = Read("r. " + Block(fmt::format("{}\n{}", kCall, kCall)), kInReasoning);
  EXPECT_EQ(two.tool_calls.size(), 2U);
}

TEST(CallsInReasoning, OthersWithinALineAreReasoning) {
  const std::string block = Block(kCall);
  for (const std::string& text : {
           "as in " + block + " you see",
           "as in " + block + ".",
           "as in " + block.substr(0, block.size() - 1),
           "as in " + block.substr(0, block.find("\n</｜DSML｜tool")),
           "as in <｜DSML｜tool_calls> " + std::string(100, 'a'),
           std::string("as in ").append(kCall),
           "as in " + block + " and " + block + " too",
       }) {
    const Answer answer = Read(text, kInReasoning);
    EXPECT_EQ(answer.reasoning_content, text);
    EXPECT_EQ(answer.tool_calls.size(), 0U) << text;
    EXPECT_EQ(answer.finish_reason, ChatFinishReason::kStop);
  }
  const Answer content = Read("as in " + block + "</think>c", kInReasoning);
  EXPECT_EQ(content.reasoning_content, "as in " + block);
  EXPECT_EQ(content.content, "c");
}

// The model might have gone on behind the block.
TEST(CallsInReasoning, ALimitMakesNoCallsOfABlockWithinALine) {
  const std::string text = "r. " + Block(kCall);
  const Answer answer = Read(text, kInReasoning, AnswerEnd::kLength);
  EXPECT_EQ(answer.reasoning_content, text);
  EXPECT_EQ(answer.tool_calls.size(), 0U);
}

// A mention before the block does not hide it, and what is held back is bounded.
TEST(CallsInReasoning, TheLastBlockCounts) {
  const std::string mention = "as in " + Block(kCall) + " or so. ";
  const Answer answer = Read(mention + Block(kCall), kInReasoning);
  ExpectOneCall(answer, R"({"a": "x"})", mention);
  EXPECT_EQ(answer.reasoning_content, mention);
  const std::string open = "as in <｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
  AnswerStream stream(kInReasoning);
  stream.Feed(open);
  EXPECT_EQ(stream.answer().reasoning_content, "as in ") << "held back";
  const std::string more(TrailingBlock::kMaxBytes, 'm');
  stream.Feed(more);
  EXPECT_EQ(stream.answer().reasoning_content, open + more);
}

TEST(RepairedMarkup, KeptRepairs) {
  const auto arguments = [](std::string_view text) {
    const Answer answer = Read(text);
    return answer.tool_calls.size() == 1 ? answer.tool_calls[0].arguments
                                         : fmt::format("{} calls", answer.tool_calls.size());
  };
  const auto call = [](std::string_view parameter) {
    return Block(
        fmt::format("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter {}"
                    "</｜DSML｜parameter>\n</｜DSML｜invoke>",
                    parameter));
  };
  // A value that is not JSON becomes a string.
  EXPECT_EQ(arguments(call("name=\"a\" string=\"false\">abc")), R"({"a": "abc"})");
  EXPECT_EQ(arguments(call("name=\"a\tb\" string=\"true\">x")), R"({"a\tb": "x"})");
  // Blocks in a row, and a call behind its block.
  EXPECT_EQ(Read(Block(kCall) + "\n" + Block(kCall)).tool_calls.size(), 2U);
  EXPECT_EQ(Read(Block(kCall) + "\n" + std::string(kCall)).tool_calls.size(), 2U);
  // A call without a name is none.
  const std::string nameless = Block(std::string(kCall).replace(kCall.find("\"f\""), 3, "\"\""));
  EXPECT_EQ(Read(nameless).content, nameless);
}

}  // namespace
}  // namespace fathom::chat
