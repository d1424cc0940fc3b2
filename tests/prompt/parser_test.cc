#include "prompt/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <string>

#include "prompt/literals.h"
#include "tests/prompt/answers.h"
#include "tests/prompt/golden.h"

namespace fathom {
namespace {

using testing::AnswerStream;
using testing::Json;
using testing::kNoSharedData;
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
  }

  void Expect(const Answer& answer, const Json& wanted) const {
    Json calls = Json::array();
    for (const ToolCall& call : answer.tool_calls) {
      calls.push_back(
          {{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}});
    }
    const Json found = {{"reasoning", answer.reasoning_content},
                        {"content", answer.content},
                        {"tool_calls", calls},
                        {"finish_reason", FinishReasonName(answer.finish_reason)}};
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

}  // namespace
}  // namespace fathom
