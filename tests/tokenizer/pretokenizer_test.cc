#include "tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/tokenizer_file.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const PreTokenizer& pretokenizer, std::string_view text) {
  std::vector<std::string_view> pieces;
  const Status status = pretokenizer.Split(text, pieces);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return {pieces.begin(), pieces.end()};
}

PreTokenizer Make(std::vector<std::string> patterns) {
  Result<PreTokenizer> pretokenizer = PreTokenizer::Create(patterns);
  EXPECT_TRUE(pretokenizer) << (pretokenizer ? "" : pretokenizer.error().message);
  return std::move(*pretokenizer);
}

PreTokenizer MakeFrom(const std::filesystem::path& path) {
  const auto file = ParseTokenizerFile(testing::ReadFile(path), "tokenizer.json");
  EXPECT_TRUE(file);
  return Make(file->patterns);
}

void ExpectGoldenPieces(const PreTokenizer& pretokenizer, const std::filesystem::path& path) {
  const std::vector<testing::TokenCase> cases = testing::ReadTokenCases(path);
  EXPECT_EQ(cases.size(), 3000u);
  for (const testing::TokenCase& golden : cases) {
    EXPECT_EQ(Split(pretokenizer, golden.text), golden.pieces) << golden.text;
  }
}

TEST(PreTokenizer, OfficialPatternsGiveTheGoldenPieces) {
  const auto tokenizer_path = testing::SharedData(testing::kOfficialTokenizer);
  const auto cases_path = testing::SharedData(testing::kPreTokenizerCases);
  if (!tokenizer_path || !cases_path) GTEST_SKIP() << testing::kNoSharedData;
  ExpectGoldenPieces(MakeFrom(*tokenizer_path), *cases_path);
}

// They write CR and LF as escapes, the official ones as characters.
TEST(PreTokenizer, PatternsOfTheEmbeddedModelGiveTheGoldenPieces) {
  const auto cases_path = testing::SharedData(testing::kPreTokenizerCases);
  if (!cases_path) GTEST_SKIP() << testing::kNoSharedData;
  ExpectGoldenPieces(MakeFrom(testing::ProjectPath(testing::kFairyTokenizer)), *cases_path);
}

TEST(PreTokenizer, RulesOfTheV4Patterns) {
  const PreTokenizer v4 = MakeFrom(testing::ProjectPath(testing::kFairyTokenizer));
  EXPECT_THAT(Split(v4, ""), ElementsAre());
  EXPECT_THAT(Split(v4, "x"), ElementsAre("x"));
  EXPECT_THAT(Split(v4, "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(Split(v4, "a foo  bar"), ElementsAre("a", " foo", " ", " bar"));
  EXPECT_THAT(Split(v4, "(foo bar)"), ElementsAre("(foo", " bar", ")"));
  EXPECT_THAT(Split(v4, "end.\n\n<tag"), ElementsAre("end", ".\n\n", "<tag"));
  EXPECT_THAT(Split(v4, "a \n\n b  "), ElementsAre("a", " \n\n", " b", "  "));
  EXPECT_THAT(Split(v4, "\u4E2D\u6587abc"), ElementsAre("\u4E2D\u6587", "abc"));
  EXPECT_THAT(Split(v4, "\u30A2\u30FB\u30A2"), ElementsAre("\u30A2", "\u30FB", "\u30A2"))
      << "step 3 cuts the kana run of step 2 at its punctuation";
  EXPECT_THAT(Split(v4, "  1"), ElementsAre("  ", "1")) << "look-ahead ends at the piece";
  EXPECT_THAT(Split(v4, "a\x01\x02z"), ElementsAre("a", "\x01", "\x02z"));
}

// Our class of white space, against the list of Unicode; U+180E is none. The V4 patterns take white
// space, and nothing else, both together with a tab before it and with a newline after it.
TEST(PreTokenizer, WhiteSpaceIsTheUnicodeProperty) {
  const PreTokenizer v4 = MakeFrom(testing::ProjectPath(testing::kFairyTokenizer));
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const bool is_space = (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
                          code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
                          code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
                          code == 0x3000;
    const std::string character = testing::ToUtf8(code);
    const bool is_taken_as_space =
        Split(v4, "\t" + character).size() == 1 && Split(v4, character + "\n").size() == 1;
    ASSERT_EQ(is_taken_as_space, is_space) << code;
  }
}

TEST(PreTokenizer, NoPatternsLeaveTheTextWhole) {
  EXPECT_THAT(Split(Make({}), "a b"), ElementsAre("a b"));
}

TEST(PreTokenizer, RefusesUnknownPatterns) {
  const auto expect_error = [](std::vector<std::string> patterns, const char* part) {
    const Result<PreTokenizer> pretokenizer = PreTokenizer::Create(patterns);
    ASSERT_FALSE(pretokenizer) << part;
    EXPECT_EQ(pretokenizer.error().code, ErrorCode::kUnsupported) << part;
    EXPECT_THAT(pretokenizer.error().message, HasSubstr(part));
  };
  expect_error({R"(\w+)"}, R"(found pattern '\w+')");
  expect_error({R"(\p{N}{1,3})", "(a"}, "found pattern '(a'");
  expect_error({"a*"}, "expected a pattern of the published DeepSeek-V4 tokenizers");
  expect_error(std::vector<std::string>(33, "a"), "at most 32 patterns, found 33");
}

}  // namespace
}  // namespace fathom::tokenizer
