#include "tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/regex_dialect.h"
#include "tokenizer/tokenizer_file.h"

namespace fathom {
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

TEST(PreTokenizer, MongolianVowelSeparatorIsNoWhiteSpace) {
  const PreTokenizer spaces = Make({R"(\s+)"});
  EXPECT_THAT(Split(spaces, "a \u180E b"), ElementsAre("a", " ", "\u180E", " ", "b"));
  const PreTokenizer others = Make({R"(\S+)"});
  EXPECT_THAT(Split(others, "a\u180Eb c"), ElementsAre("a\u180Eb", " ", "c"));
  const PreTokenizer classes = Make({R"([x\s]+)"});
  EXPECT_THAT(Split(classes, "ax \u180E"), ElementsAre("a", "x ", "\u180E"));
}

// Our class of white space, against the list of Unicode.
TEST(PreTokenizer, WhiteSpaceIsTheUnicodeProperty) {
  const PreTokenizer spaces = Make({R"(\s)"});
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const bool is_space = (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
                          code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
                          code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
                          code == 0x3000;
    const std::string character = testing::ToUtf8(code);
    ASSERT_EQ(Split(spaces, "a" + character + "a").size(), is_space ? 3u : 1u) << code;
  }
}

TEST(PreTokenizer, NoPatternsLeaveTheTextWhole) {
  EXPECT_THAT(Split(Make({}), "a b"), ElementsAre("a b"));
  EXPECT_THAT(Split(Make({"never"}), "a b"), ElementsAre("a b"));
}

TEST(PreTokenizer, RefusesPatternsThatMeanSomethingElseInPcre2) {
  const std::vector<std::string> patterns = {
      R"(\w+)",  R"(\bx)",      R"(\h+)",     R"(a\vb)", R"(\x41)", "^a",        "a$",
      "a.b",     "(?i:x)",      "(?<=a)b",    "(*UTF)a", "[a&&b]",  "[a[b]]",    "[[:alpha:]]",
      R"([\S])", R"(\p{Han}+)", R"(\p{^L}+)", R"(\p{L)", R"(\pL)",  "a{,3}",     "a{2}+",
      "a{2}?",   "a{x}",        "a{2",        "[]a]",    "[a",      "a\\",       R"([\w])",
      "a{",      R"(\p{l})",    R"(\p{})",    R"([a\)",  "(?>a)",   R"(\p{LUU})"};
  for (const std::string& pattern : patterns) {
    const Result<std::string> translated = ToPcre2Pattern(pattern);
    ASSERT_FALSE(translated) << pattern;
    EXPECT_EQ(translated.error().code, ErrorCode::kUnsupported) << pattern;
    EXPECT_THAT(translated.error().message, HasSubstr("is not supported (supported: ")) << pattern;
  }
}

TEST(PreTokenizer, LeavesTheCommonLanguageAlone) {
  for (const std::string pattern :
       {R"(\p{N}{1,3})", R"([^\r\n\p{L}\p{Lu}]?[a-z]+)", R"((?:a|b)*+c{2}d{1,}(?=e)(?!f)(g))",
        R"([\[\]\\\-]\.)", "\u4E00-\u9FA5", R"(\d\D\t\P{M}??)"}) {
    EXPECT_EQ(ToPcre2Pattern(pattern), pattern);
  }
}

TEST(PreTokenizer, RefusesBrokenPatterns) {
  const auto expect_error = [](std::vector<std::string> patterns, const char* part) {
    const Result<PreTokenizer> pretokenizer = PreTokenizer::Create(patterns);
    ASSERT_FALSE(pretokenizer) << part;
    EXPECT_THAT(pretokenizer.error().message, HasSubstr(part));
  };
  expect_error({"(a"}, "'(a'");
  expect_error({"a{9,2}"}, "'a{9,2}'");
  expect_error({"a*"}, "cannot match the empty string");
  expect_error({"a|(?=b)"}, "cannot match the empty string");
  expect_error(std::vector<std::string>(33, "a"), "at most 32 patterns, found 33");
}

// Exponential backtracking must end as an error, not as a server that hangs.
TEST(PreTokenizer, APatternThatExplodesIsAnError) {
  const PreTokenizer hostile = Make({"(?:a|a|aa)+b"});
  const std::string text = std::string(5000, 'a') + "cb";
  std::vector<std::string_view> pieces;
  const Status status = hostile.Split(text, pieces);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("5002 bytes"));
  EXPECT_THAT(status.error().message, HasSubstr("pattern 1 of 1"));
}

}  // namespace
}  // namespace fathom
