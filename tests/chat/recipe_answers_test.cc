// Answers that DeepSeek's converter (deepseek-recipe 0.2.0) and this parser read alike, and cuts of
// them: the content of an answer that a limit cuts begins that of a longer one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "chat/literals.h"
#include "chat/parser.h"
#include "tests/chat/answers.h"
#include "tests/chat/golden.h"
#include "tokenizer/tokenizer.h"

namespace fathom::chat {
namespace {

using tokenizer::TextSpan;
using tokenizer::Tokenizer;

using testing::Json;
using testing::kNoSharedData;
using testing::ReadInPieces;
using testing::Show;

struct Output {
  std::string name;
  std::string text;
  bool starts_in_reasoning = false;
  AnswerEnd end = AnswerEnd::kStop;
  Json expected{};

  AnswerParserOptions Options(bool streams = false) const {
    return {.starts_in_reasoning = starts_in_reasoning, .stream_arguments = streams};
  }
};

std::vector<Output> RecipeOutputs() {
  std::vector<Output> outputs;
  const auto lines = testing::EncodingText("recipe_parse_cases.jsonl");
  if (!lines) return outputs;
  std::istringstream stream(*lines);
  for (std::string line; std::getline(stream, line);) {
    const Json json = Json::parse(line);
    outputs.push_back({.name = json["id"].get<std::string>(),
                       .text = json["text"].get<std::string>(),
                       .starts_in_reasoning = json["starts_in_reasoning"].get<bool>(),
                       .end = json["ended_by"] == "length" ? AnswerEnd::kLength : AnswerEnd::kStop,
                       .expected = json["expected"]});
  }
  EXPECT_EQ(outputs.size(), 171U);
  return outputs;
}

// Outputs put together from what answers have, well formed and not, in the format's own spelling:
// its marks are tokens there.
std::vector<Output> MadeOutputs(std::size_t count) {
  const std::vector<std::string> parts = {"Text",
                                          " é日本😀",
                                          "\n",
                                          "\n\n",
                                          " if a < b:",
                                          "<p>x</p>",
                                          "</t",
                                          "<",
                                          "</",
                                          "<think>",
                                          "</think>",
                                          "<｜DSML｜tool_calls>",
                                          "<｜DSML｜invoke name=\"f\">",
                                          "<｜DSML｜parameter name=\"a\" string=\"true\">",
                                          "<｜DSML｜parameter name=\"b\" string=\"false\">",
                                          "{\"k\": [1, 2]}",
                                          "</｜DSML｜parameter>",
                                          "</｜DSML｜invoke>",
                                          "</｜DSML｜tool_calls>",
                                          "\n\n" + testing::Block(testing::kCall),
                                          "｜DSML｜",
                                          "<｜DSML｜oops>"};
  std::mt19937 random(44);
  std::vector<Output> outputs(count);
  for (std::size_t i = 0; i < count; ++i) {
    Output& output = outputs[i];
    output.name = fmt::format("made {}", i);
    output.starts_in_reasoning = random() % 3 == 0;
    for (std::size_t n = 1 + random() % 14; n > 0; --n)
      output.text += parts[random() % parts.size()];
  }
  return outputs;
}

Json Found(const Answer& answer) {
  Json calls = Json::array();
  for (const ToolCall& call : answer.tool_calls) {
    calls.push_back(
        {{"name", call.name}, {"arguments", Json::parse(call.arguments, nullptr, false)}});
  }
  return {{"reasoning", answer.reasoning_content},
          {"content", answer.content},
          {"tool_calls", calls},
          {"finish_reason", ChatFinishReasonName(answer.finish_reason)}};
}

TEST(RecipeAnswers, AreReadAlikeHoweverTheyAreDivided) {
  const std::vector<Output> outputs = RecipeOutputs();
  if (outputs.empty()) GTEST_SKIP() << kNoSharedData;
  for (const Output& output : outputs) {
    const Answer whole = ReadInPieces(output.text, {}, output.Options(), output.end);
    EXPECT_EQ(Found(whole), output.expected) << output.name;
    std::vector<std::size_t> cuts(output.text.size());
    std::iota(cuts.begin(), cuts.end(), std::size_t{0});
    for (const bool streams : {false, true}) {
      const AnswerParserOptions options = output.Options(streams);
      const std::string shown = Show(ReadInPieces(output.text, {}, options, output.end));
      EXPECT_EQ(Show(ReadInPieces(output.text, cuts, options, output.end)), shown) << output.name;
      for (const std::size_t cut : cuts) {
        ASSERT_EQ(Show(ReadInPieces(output.text, {cut}, options, output.end)), shown)
            << output.name << " divided at " << cut;
      }
    }
  }
}

// Returns the content without a last bracket and the newlines before it, which belong to markup if
// the token ｜DSML｜ follows.
std::string_view WithoutBracket(std::string_view content) {
  for (const std::string_view bracket : {"</", "<"}) {
    if (!content.ends_with(bracket)) continue;
    content.remove_suffix(bracket.size());
    break;
  }
  return content.substr(0, content.find_last_not_of('\n') + 1);
}

// Cuts the output before each of the places, which ascend, and compares the contents. `streams`:
// the text comes in these pieces.
void ExpectContentsToGrow(const Output& output, const std::vector<std::size_t>& places,
                          bool streams) {
  std::string shorter;
  std::string sent;  // by a stream that has not ended
  testing::AnswerStream stream(output.Options(streams));
  std::size_t fed = 0;
  for (const std::size_t place : places) {
    const Answer cut = ReadInPieces(output.text.substr(0, place), {place / 2},
                                    output.Options(streams), AnswerEnd::kLength);
    const bool grows = cut.content.starts_with(shorter);
    const std::string_view before = std::string_view(output.text).substr(0, place);
    const bool is_at_mark = before.ends_with(kDsml);
    ASSERT_TRUE(grows || (is_at_mark && cut.content == WithoutBracket(shorter)))
        << output.name << " cut at " << place << ": " << cut.content << "\nbefore: " << shorter
        << "\nin: " << output.text;
    shorter = cut.content;
    stream.Feed(before.substr(fed));
    fed = place;
    ASSERT_TRUE(stream.answer().content.starts_with(sent)) << output.name;
    sent = stream.answer().content;
    ASSERT_TRUE(cut.content.starts_with(sent)) << output.name << " cut at " << place;
  }
}

// The places behind each token of the text.
std::vector<std::size_t> TokenEnds(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TextSpan> spans = {{.text = text, .trusted = true}};
  const Result<std::vector<Token>> tokens = tokenizer.Encode(spans);
  EXPECT_TRUE(tokens) << tokens.error().message;
  std::vector<std::size_t> ends;
  for (const Token token : tokens.value_or(std::vector<Token>())) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + tokenizer.TokenBytes(token).size());
  }
  return ends;
}

std::vector<Output> AllOutputs() {
  std::vector<Output> outputs = RecipeOutputs();
  for (Output& output : MadeOutputs(500)) outputs.push_back(std::move(output));
  return outputs;
}

TEST(RecipeAnswers, ContentsGrowTokenByToken) {
  const auto path = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
  if (!path) GTEST_SKIP() << kNoSharedData;
  const Result<Tokenizer> tokenizer = Tokenizer::Load(*path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const Output& output : AllOutputs()) {
    const std::vector<std::size_t> ends = TokenEnds(*tokenizer, output.text);
    ASSERT_EQ(ends.empty() ? 0 : ends.back(), output.text.size()) << output.name;
    for (const bool streams : {false, true}) ExpectContentsToGrow(output, ends, streams);
  }
}

// At characters, but not within the marks, which are one token each.
TEST(RecipeAnswers, ContentsGrowCharacterByCharacter) {
  for (const Output& output : AllOutputs()) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < output.text.size();) {
      const std::string_view rest = std::string_view(output.text).substr(i);
      std::size_t length = 1;
      for (const std::string_view mark : {kDsml, kThinkOpenToken, kThinkCloseToken}) {
        if (rest.starts_with(mark)) length = mark.size();
      }
      while (length < rest.size() && (static_cast<unsigned char>(rest[length]) & 0xC0) == 0x80) {
        ++length;
      }
      ends.push_back(i += length);
    }
    for (const bool streams : {false, true}) ExpectContentsToGrow(output, ends, streams);
  }
}

}  // namespace
}  // namespace fathom::chat
