#include "chat/parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "tests/chat/answers.h"
#include "tests/chat/golden.h"

namespace fathom::chat {
namespace {

using testing::AnswerStream;
using testing::Block;
using testing::Json;
using testing::kCall;
using testing::kInReasoning;
using testing::kNoSharedData;
using testing::Read;
using testing::ReadInPieces;
using testing::Show;

ToolSchemas Tools(const Json& schemas) {
  std::vector<ToolSpec> specs;
  for (const Json& schema : schemas) {
    if (schema.is_string()) {
      const std::string name = schema.get<std::string>();
      specs.push_back({.name = name, .function_json = Json({{"name", name}}).dump()});
    } else {
      specs.push_back({.name = schema["name"].get<std::string>(), .function_json = schema.dump()});
    }
  }
  const Result<ToolSchemas> tools = ToolSchemas::Make(specs);
  EXPECT_TRUE(tools) << tools.error().message;
  return *tools;
}

// One of extra/robust_parse_cases.json.
struct RobustCase {
  explicit RobustCase(const Json& json)
      : name(json["name"].get<std::string>()),
        text(json["text"].get<std::string>()),
        end(json["ended_by"] == "length" ? AnswerEnd::kLength : AnswerEnd::kStop),
        expected(json["expected"]) {
    options.starts_in_reasoning = json["thinking_mode"] == "thinking";
    if (!json["tool_schemas"].is_null()) options.tools = Tools(json["tool_schemas"]);
    options.stream_arguments = false;
    // The case closes the JSON of a call that a limit cut. Section 12 of encoding.md, which is
    // newer, leaves the call cut.
    if (name == "R20_truncated_value_length") {
      expected["tool_calls"][0]["arguments"] = R"({"a": "hel)";
    }
  }

  void Expect(const Answer& answer, const Json& wanted) const {
    Json calls = Json::array();
    for (const ToolCall& call : answer.tool_calls) {
      const bool is_cut = answer.cut_call && calls.size() + 1 == answer.tool_calls.size();
      calls.push_back({{"name", call.name},
                       {"arguments", is_cut ? Json(call.arguments)
                                            : Json::parse(call.arguments, nullptr, false)}});
    }
    const Json found = {{"reasoning", answer.reasoning_content},
                        {"content", answer.content},
                        {"tool_calls", calls},
                        {"finish_reason", ChatFinishReasonName(answer.finish_reason)}};
    EXPECT_EQ(found, wanted) << name;
  }

  std::string name;
  std::string text;
  AnswerEnd end;
  Json expected;
  AnswerParserOptions options;
};

std::vector<RobustCase> RobustCases() {
  std::vector<RobustCase> cases;
  const auto json = testing::EncodingJson("extra/robust_parse_cases.json");
  if (!json) return cases;
  for (const Json& entry : *json) cases.emplace_back(entry);
  EXPECT_EQ(cases.size(), 30U);
  return cases;
}

TEST(AnswerParser, RobustCasesWhole) {
  const std::vector<RobustCase> cases = RobustCases();
  if (cases.empty()) GTEST_SKIP() << kNoSharedData;
  for (const RobustCase& golden : cases) {
    golden.Expect(ReadInPieces(golden.text, {}, golden.options, golden.end), golden.expected);
  }
}

TEST(AnswerParser, RobustCasesByteByByte) {
  const std::vector<RobustCase> cases = RobustCases();
  if (cases.empty()) GTEST_SKIP() << kNoSharedData;
  for (const RobustCase& golden : cases) {
    std::vector<std::size_t> cuts(golden.text.size());
    std::iota(cuts.begin(), cuts.end(), std::size_t{0});
    const Answer answer = ReadInPieces(golden.text, cuts, golden.options, golden.end);
    golden.Expect(answer, golden.expected);
    EXPECT_EQ(Show(answer), Show(ReadInPieces(golden.text, {}, golden.options, golden.end)));
  }
}

TEST(AnswerParser, RobustCasesInTwoPieces) {
  const std::vector<RobustCase> cases = RobustCases();
  if (cases.empty()) GTEST_SKIP() << kNoSharedData;
  for (const RobustCase& golden : cases) {
    for (std::size_t cut = 0; cut <= golden.text.size(); ++cut) {
      golden.Expect(ReadInPieces(golden.text, {cut}, golden.options, golden.end), golden.expected);
    }
  }
}

TEST(AnswerParser, RobustCasesInRandomPieces) {
  const std::vector<RobustCase> cases = RobustCases();
  if (cases.empty()) GTEST_SKIP() << kNoSharedData;
  std::mt19937 random(7);
  for (const RobustCase& golden : cases) {
    for (int round = 0; round < 100; ++round) {
      std::vector<std::size_t> cuts;
      const std::size_t longest = 1 + random() % 20;
      for (std::size_t at = 0; at < golden.text.size(); at += 1 + random() % longest) {
        cuts.push_back(at);
      }
      golden.Expect(ReadInPieces(golden.text, cuts, golden.options, golden.end), golden.expected);
    }
  }
}

// Sent as a stream the answers are the same, except that of a repeated parameter the first value
// cannot be taken back.
TEST(AnswerParser, RobustCasesAsStream) {
  const std::vector<RobustCase> cases = RobustCases();
  if (cases.empty()) GTEST_SKIP() << kNoSharedData;
  for (const RobustCase& golden : cases) {
    AnswerParserOptions options = golden.options;
    options.stream_arguments = true;
    Json expected = golden.expected;
    if (golden.name == "R24_duplicate_param") expected["tool_calls"][0]["arguments"]["a"] = "x";
    for (std::size_t cut = 0; cut <= golden.text.size(); ++cut) {
      golden.Expect(ReadInPieces(golden.text, {cut}, options, golden.end), expected);
    }
  }
}

// The policy, case by case, beyond the golden ones.

TEST(AnswerParser, ReasoningEndsAtABlockOnlyAtALinesStart) {
  const std::string mention = "as in " + Block(kCall) + " you see";
  const Answer answer = Read(mention + "</think>c", kInReasoning);
  EXPECT_EQ(answer.reasoning_content, mention);
  EXPECT_EQ(answer.content, "c");
  EXPECT_EQ(Read(Block(kCall), kInReasoning).tool_calls.size(), 1U);
  EXPECT_EQ(Read("r\n\n" + Block(kCall) + "</think>c", kInReasoning).tool_calls.size(), 1U);
  EXPECT_EQ(Read(std::string("r\n").append(kCall), kInReasoning).tool_calls.size(), 0U);
}

TEST(AnswerParser, ReasoningKeepsItsNewlines) {
  const Answer answer = Read("\n\nr\n\n</think>\n\nc\n\n", kInReasoning);
  EXPECT_EQ(answer.reasoning_content, "\n\nr\n\n");
  EXPECT_EQ(answer.content, "\n\nc\n\n");
}

TEST(AnswerParser, ThinkTagsInContentGo) {
  const Answer answer = Read("<think>a</think>b<think>c</think></think>");
  EXPECT_EQ(answer.content, "abc");
  EXPECT_EQ(Read("a <think> b</think>c", kInReasoning).reasoning_content, "a <think> b");
}

TEST(AnswerParser, SeveralCallsAndBlocks) {
  const std::string two = fmt::format("{}\n{}", kCall, kCall);
  const Answer answer = Read("c\n\n" + Block(two) + "\n" + Block(kCall));
  EXPECT_EQ(answer.content, "c");
  ASSERT_EQ(answer.tool_calls.size(), 3U);
  EXPECT_NE(answer.tool_calls[0].id, answer.tool_calls[1].id);
  EXPECT_EQ(answer.finish_reason, ChatFinishReason::kToolCalls);
  EXPECT_EQ(Read(two).tool_calls.size(), 2U);
}

TEST(AnswerParser, MissingClosers) {
  const std::string_view open = "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" ";
  for (const std::string_view value : {"string=\"true\">x\n", "string=\"true\">x"}) {
    for (const std::string_view rest :
         {"</｜DSML｜invoke>\n</｜DSML｜tool_calls>", "</｜DSML｜tool_calls>",
          "<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}) {
      const Answer answer = Read(fmt::format("<｜DSML｜tool_calls>\n{}{}{}", open, value, rest));
      ASSERT_FALSE(answer.tool_calls.empty()) << rest;
      EXPECT_EQ(answer.tool_calls[0].arguments, "{\"a\": \"x\"}") << rest;
      EXPECT_EQ(answer.finish_reason, ChatFinishReason::kToolCalls);
    }
  }
}

TEST(AnswerParser, JsonBody) {
  const auto body = [](std::string_view json) {
    return Block(fmt::format("<｜DSML｜invoke name=\"f\">\n{}\n</｜DSML｜invoke>", json));
  };
  const Answer answer = Read(body(R"({"a": {"b": "</x> <"}})"));
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"a": {"b": "</x> <"}})");
  const Answer broken = Read("c\n\n" + body("{\"a\": "));
  EXPECT_EQ(broken.tool_calls.size(), 0U);
  EXPECT_EQ(broken.content, "c\n\n" + body("{\"a\": "));
  EXPECT_EQ(broken.finish_reason, ChatFinishReason::kStop);
  EXPECT_EQ(broken.stats.malformed_arguments, 1U);
}

TEST(AnswerParser, NothingReadableInABlockStaysText) {
  const std::string text = "see\n\n" + Block("nothing to call");
  const Answer answer = Read(text);
  EXPECT_EQ(answer.content, text);
  EXPECT_EQ(answer.finish_reason, ChatFinishReason::kStop);
  EXPECT_GE(answer.stats.failed_blocks, 1U);
}

TEST(AnswerParser, ACallThatWasGivenIsOneWhateverFollows) {
  const std::string opener = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
  const auto read = [&](const std::string& text, AnswerEnd end) {
    AnswerParserOptions options = {.tools = Tools({"f"}), .begins_with_call = true};
    AnswerStream whole(options);
    whole.Feed(opener + text);
    const Answer answer = whole.Finish(end);
    AnswerStream bytewise(options);
    for (const char c : opener + text) bytewise.Feed(std::string(1, c));
    EXPECT_EQ(Show(bytewise.Finish(end)), Show(answer)) << text;
    return answer;
  };
  for (const char* text : {"", "\n", "no <b>", "</｜DSML｜invoke>", "</｜DSML｜tool_calls>",
                           "{\"a\": ", "{]</｜DSML｜invoke>", "<｜DSML｜inv"}) {
    for (const AnswerEnd end : {AnswerEnd::kStop, AnswerEnd::kLength}) {
      const Answer answer = read(text, end);
      EXPECT_EQ(answer.content, "") << text;
      ASSERT_EQ(answer.tool_calls.size(), 1u) << text;
      EXPECT_EQ(answer.tool_calls[0].name, "f");
      const bool is_cut = end == AnswerEnd::kLength;
      EXPECT_EQ(FinishedArguments(answer, 0), "{}") << text;
      const bool ends = std::string_view(text).find("</｜DSML｜") != std::string_view::npos;
      EXPECT_EQ(answer.cut_call.has_value(), is_cut && !ends) << text;
      EXPECT_EQ(answer.finish_reason,
                is_cut ? ChatFinishReason::kLength : ChatFinishReason::kToolCalls);
    }
  }
  AnswerStream other({.tools = Tools({"f"})});
  other.Feed(opener + "no");
  EXPECT_NE(other.Finish(AnswerEnd::kStop).content, "") << "one that the model opened is text";
}

TEST(AnswerParser, TextAfterCalls) {
  const std::string text = "a\n\n" + Block(kCall) + "\n\nbye";
  EXPECT_EQ(Read(text).stats.dropped_bytes, 3U);
}

TEST(AnswerParser, TextAfterAnEmptyBlockIsContent) {
  EXPECT_EQ(Read("a\n\n" + Block("") + "b").content, "ab");
}

TEST(AnswerParser, PlainMarkupNeedsAToolOfTheRequest) {
  const std::string text =
      "<tool_calls>\n<invoke name=\"g\">\n<parameter name=\"a\">1</parameter>\n</invoke>\n"
      "</tool_calls>";
  EXPECT_EQ(Read(text).content, text);
  EXPECT_EQ(Read(text, {.tools = Tools(Json::array({"f"}))}).content, text);
  const Answer answer = Read(text, {.tools = Tools(Json::array({"g"}))});
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"a": 1})");
}

TEST(AnswerParser, TypesOfParameters) {
  const ToolSchemas tools = Tools(Json::parse(
      R"([{"name":"f","parameters":{"properties":{"s":{"type":"string"},"i":{"type":"integer"},
           "u":{"type":["string","null"]}}}}])"));
  const auto arguments = [&](std::string_view parameter) {
    const Answer answer =
        Read(Block(fmt::format("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name={}"
                               "</｜DSML｜parameter>\n</｜DSML｜invoke>",
                               parameter)),
             {.tools = tools});
    return answer.tool_calls.empty() ? "no call" : answer.tool_calls[0].arguments;
  };
  EXPECT_EQ(arguments("\"s\">5"), R"({"s": "5"})");
  EXPECT_EQ(arguments("\"i\">5"), R"({"i": 5})");
  EXPECT_EQ(arguments("\"i\">five"), R"({"i": "five"})");
  EXPECT_EQ(arguments("\"u\">null"), R"({"u": null})");
  EXPECT_EQ(arguments("\"x\">[1]"), R"({"x": [1]})");
  EXPECT_EQ(arguments("\"x\">one"), R"({"x": "one"})");
  EXPECT_EQ(arguments("\"i\" string=\"true\">5"), R"({"i": "5"})");
  EXPECT_EQ(arguments("\"i\" string=\"false\"> 5 "), R"({"i": 5})");
  EXPECT_EQ(arguments("\"i\" string=\"false\">NaN"), R"({"i": "NaN"})");
}

TEST(AnswerParser, WrappedArguments) {
  const ToolSchemas tools =
      Tools(Json::parse(R"([{"name":"f","parameters":{"properties":{"a":{"type":"string"}}}}])"));
  const auto arguments = [&](std::string_view parameters) {
    const Answer answer =
        Read(fmt::format("<｜DSML｜invoke name=\"f\">\n{}\n</｜DSML｜invoke>", parameters),
             {.tools = tools});
    return answer.tool_calls.empty() ? "no call" : answer.tool_calls[0].arguments;
  };
  const std::string wrapped =
      "<｜DSML｜parameter name=\"input\" string=\"true\">{\"a\": \"x\"}</｜DSML｜parameter>";
  const std::string text =
      "<｜DSML｜parameter name=\"input\" string=\"true\">5</｜DSML｜parameter>";
  const std::string other = "<｜DSML｜parameter name=\"a\" string=\"true\">y</｜DSML｜parameter>";
  EXPECT_EQ(arguments(wrapped), R"({"a": "x"})");
  EXPECT_EQ(arguments(text), R"({"input": "5"})");
  EXPECT_EQ(arguments(wrapped + other), R"({"input": "{\"a\": \"x\"}", "a": "y"})");
  EXPECT_EQ(arguments(other + text), R"({"a": "y", "input": "5"})");
}

TEST(AnswerParser, StrictToolsAreNotUnwrapped) {
  const Result<ToolSchemas> tools = ToolSchemas::Make(std::vector<ToolSpec>{
      {.name = "f",
       .function_json = R"({"name":"f","parameters":{"properties":{"a":{"type":"string"}}}})",
       .strict = true}});
  const Answer answer = Read(
      "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"input\" string=\"true\">{\"a\": "
      "\"x\"}"
      "</｜DSML｜parameter>\n</｜DSML｜invoke>",
      {.tools = *tools});
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"input": "{\"a\": \"x\"}"})");
}

// The name of a plain tag may have any characters: its end was looked for behind the closers.
TEST(AnswerParser, PlainTagsInValuesAreText) {
  for (const std::string value :
       {"<parameter name=\"", "<parameter name=\"a\" value=\"3\"/>", "</parameter",
        "<invoke name=\"f", "<calls", "<tool_calls>\n<invoke name=\"f\">", "</think", "<"}) {
    const Json arguments = {{"a", value}};
    const auto call = [&](bool is_string) {
      return Block(
          fmt::format("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
                      "string=\"{}\">{}</｜DSML｜parameter>\n</｜DSML｜invoke>",
                      is_string, is_string ? value : Json(value).dump()));
    };
    for (const bool is_string : {true, false}) {
      const std::string text = call(is_string);
      for (const AnswerEnd end : {AnswerEnd::kStop, AnswerEnd::kLength}) {
        const Answer answer = Read(text, {.tools = Tools(Json::array({"f"}))}, end);
        ASSERT_EQ(answer.tool_calls.size(), 1U) << text;
        EXPECT_EQ(Json::parse(answer.tool_calls[0].arguments, nullptr, false), arguments) << text;
        EXPECT_EQ(answer.content, "") << text;
      }
      AnswerStream stream({});
      stream.Feed(text);
      EXPECT_TRUE(stream.parser().calls_complete()) << text;
    }
  }
  const Answer body =
      Read("<｜DSML｜invoke name=\"f\">\n{\"a\": \"<parameter name=\\\"\"}\n</｜DSML｜invoke>");
  ASSERT_EQ(body.tool_calls.size(), 1U);
  EXPECT_EQ(Json::parse(body.tool_calls[0].arguments), Json({{"a", "<parameter name=\""}}));
}

TEST(AnswerParser, NamesMayHave128CodePoints) {
  std::string name;
  for (int i = 0; i < 128; ++i) name += "\U0001F600";
  const Answer answer =
      Read(Block("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"" + name +
                 "\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>"));
  ASSERT_EQ(answer.tool_calls.size(), 1U);
  EXPECT_EQ(Json::parse(answer.tool_calls[0].arguments), Json({{name, 1}}));
}

TEST(AnswerParser, BlockClosedMeansCallsComplete) {
  AnswerStream stream({});
  stream.Feed(Block(kCall).substr(0, Block(kCall).size() - 1));
  EXPECT_FALSE(stream.parser().calls_complete());
  stream.Feed(">");
  EXPECT_TRUE(stream.parser().calls_complete());
}

TEST(AnswerParser, StringsAreSentAsTheyArrive) {
  AnswerStream stream({});
  stream.Feed("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">li\"ne");
  ASSERT_EQ(stream.answer().tool_calls.size(), 1U);
  EXPECT_EQ(stream.answer().tool_calls[0].arguments, R"({"a": "li\"ne)");
}

TEST(AnswerParser, NotUtf8) {
  const Answer answer = Read("a\xFF\xE2\x82");
  EXPECT_EQ(answer.content, "a\uFFFD\uFFFD");
}

TEST(CallIds, AreLongEnoughAndFollowTheSeed) {
  const RandomBits bits = testing::SeededBits(3);
  const std::string first = MakeId("call_", bits);
  EXPECT_THAT(first, ::testing::MatchesRegex("call_[0-9A-Za-z]+"));
  EXPECT_EQ(first.size(), 29U);
  EXPECT_NE(first, MakeId("call_", bits));
  EXPECT_EQ(first, MakeId("call_", testing::SeededBits(3)));
}

TEST(Answer, AsOpenAiMessage) {
  EXPECT_EQ(AnswerToJson(Read("r</think>c", kInReasoning)),
            R"({"role": "assistant", "content": "c", "reasoning_content": "r", )"
            R"("finish_reason": "stop"})");
  const Answer calls = Read(Block(kCall));
  EXPECT_EQ(AnswerToJson(calls),
            fmt::format(R"({{"role": "assistant", "content": null, "tool_calls": [{{"id": "{}", )"
                        R"("type": "function", "function": {{"name": "f", )"
                        R"("arguments": "{{\"a\": \"x\"}}"}}}}], "finish_reason": "tool_calls"}})",
                        calls.tool_calls[0].id));
}

TEST(Answer, EndOfSentenceAsTextEndsTheAnswer) {
  const Answer answer = ParseAnswer("c<｜end▁of▁sentence｜>",
                                    {.random_bits = testing::SeededBits(1)}, AnswerEnd::kLength);
  EXPECT_EQ(answer.content, "c");
  EXPECT_EQ(answer.finish_reason, ChatFinishReason::kStop);
}

}  // namespace
}  // namespace fathom::chat
