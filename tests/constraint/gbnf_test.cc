#include "constraint/readers/gbnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/constraint/naive_recognizer.h"

namespace fathom::constraint {
namespace {

using testing::NaiveRecognizer;
using testing::TextSymbols;

GbnfOptions Options() {
  GbnfOptions options;
  options.vocab_size = 1000;
  options.find_token = [](std::string_view text) {
    return text == "<think>" ? std::optional<Token>(7) : std::nullopt;
  };
  return options;
}

std::unique_ptr<Grammar> Parsed(std::string_view text) {
  auto grammar = std::make_unique<Grammar>();
  const ConstraintResult<void> parsed = ParseGbnf(*grammar, text, Options());
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().message);
  return grammar;
}

void ExpectGbnfTexts(std::string_view source, const std::vector<std::string>& accepted,
                     const std::vector<std::string>& refused) {
  const auto grammar = Parsed(source);
  NaiveRecognizer recognizer(*grammar);
  for (const std::string& text : accepted) EXPECT_TRUE(recognizer.Accepts(text)) << text;
  for (const std::string& text : refused) EXPECT_FALSE(recognizer.Accepts(text)) << text;
}

ConstraintError GbnfError(std::string_view source) {
  Grammar grammar;
  const ConstraintResult<void> parsed = ParseGbnf(grammar, source, Options());
  EXPECT_FALSE(parsed) << source;
  return parsed ? ConstraintError{} : parsed.error();
}

// The part as often as it fits.
std::string RepeatedPart(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() + part.size() <= bytes) text += part;
  return text;
}

TEST(Gbnf, LiteralsAndEscapes) {
  ExpectGbnfTexts(R"(root ::= "a\n\t\r\"\\\[\]b")", {"a\n\t\r\"\\[]b"}, {"a", "", "a\n\t\r\"\\[]"});
  ExpectGbnfTexts(R"(root ::= "\x41\xe9\u20ac\U0001F600")", {"Aé€😀"}, {"A\xE9€😀"});
  ExpectGbnfTexts("root ::= \"é\" \"\"", {"é"}, {"\xC3", "e"});
}

TEST(Gbnf, ClassesMatchCodePoints) {
  ExpectGbnfTexts("root ::= [a-cé-ü]", {"a", "b", "c", "é", "ü", "í"},
                  {"d", "\xC3", "\xA9", "ý", ""});
  ExpectGbnfTexts("root ::= [^a-c\\n]", {"d", "€", "😀", "]"}, {"a", "\n", "", "\xF0", "dd"});
  ExpectGbnfTexts("root ::= .", {"a", "\n", "é", "\U0010FFFF"}, {"", "\xC3", "\xED\xA0\x80", "aa"});
  ExpectGbnfTexts("root ::= [-a] [a-] [+\\-*] [\\]\\[\\\\\"^]", {"--+]", "aa-[", "-a*\\", "a-*^"},
                  {"b--]", "aa,]"});
  ExpectGbnfTexts("root ::= [\\x41-\\u00ff]", {"A", "ÿ", "é"}, {"@", "Ā"});
  ExpectGbnfTexts("root ::= [ぁ-ゟ]+", {"ひらがな"}, {"カ", "ひ\xE3\x81"});
}

TEST(Gbnf, Repetitions) {
  ExpectGbnfTexts("root ::= \"ab\"* \"c\"+ \"d\"?", {"c", "ababccd", "cc"},
                  {"ab", "ac", "cdd", ""});
  ExpectGbnfTexts("root ::= \"a\"{2}", {"aa"}, {"a", "aaa"});
  ExpectGbnfTexts("root ::= \"a\"{2,}", {"aa", "aaaa"}, {"a"});
  ExpectGbnfTexts("root ::= \"a\"{,2}", {"", "aa"}, {"aaa"});
  ExpectGbnfTexts("root ::= (\"a\" | \"b\"){ 1 , 3 }", {"a", "ba", "bab"}, {"", "abab"});
  ExpectGbnfTexts("root ::= \"a\"{0} \"b\" *", {"", "bb"}, {"a"});
  ExpectGbnfTexts("root ::= (\"a\"?)+ \"b\"+?", {"", "aa", "ab", "bb"}, {"ba"});
}

TEST(Gbnf, AlternativesLinesAndComments) {
  const std::string_view source =
      "# what comes first is a comment\r\n"
      "\n"
      "root ::=   # behind the sign\n"
      "  one | (  # in a group\n"
      "    \"2\"\n"
      "\n"
      "    | \"3\" [#]\n"
      "  ) |\n"
      "  \"4\"\n"
      "  | \"5\"  # the line goes on\n"
      "one ::= | \"1\"\r\n"
      "never-used_9 ::= \"x\"\n"
      "# the end";
  ExpectGbnfTexts(source, {"", "1", "2", "3#", "4", "5"}, {"x", "3", "23#"});
}

TEST(Gbnf, Arithmetic) {
  ExpectGbnfTexts(
      "root ::= sum \"=\" num\n"
      "sum ::= product (blank* [+-] blank* product)*\n"
      "product ::= atom (blank* [*/] blank* atom)*\n"
      "atom ::= num | \"-\" atom | \"(\" sum \")\"\n"
      "num ::= \"0\" | [1-9] [0-9]{0,8}\n"
      "blank ::= [ \\t]\n",
      {"1=1", "1 + 2*3=7", "(1+(2))*-3=9", "((((5))))=5"}, {"1+=2", "(1=1", "01=1", "1 +  2=", ""});
}

TEST(Gbnf, Json) {
  ExpectGbnfTexts(
      "root ::= object\n"
      "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
      "object ::= \"{\" ws ( member (\",\" ws member)* )? \"}\" ws\n"
      "member ::= string \":\" ws value\n"
      "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
      "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"
      "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? ws\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
      {"{}", R"({"a": [1, {"b": null}, -0.5e+7], "é\u00e9": "x\"y"})", "{\n  \"k\":\n    {}}"},
      {"[]", R"({"a")", R"({"a":01})", R"({"a":1,})", "{\"a\":\"\x01\"}", R"({"a":"\x"})"});
}

TEST(Gbnf, ChessMoves) {
  ExpectGbnfTexts(
      "root ::= (\n"
      "  # the first move\n"
      "  \"1. \" move \" \" move \"\\n\"\n"
      "  ([1-9] [0-9]? \". \" move \" \" move \"\\n\")*\n"
      ")\n"
      "move ::= (pawn | piece | castle) [+#]?\n"
      "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
      "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
      "castle ::= \"O-O\" \"-O\"?\n",
      {"1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n10. O-O-O exd8=Q+\n"}, {"1. e9 e5\n", "1. e4\n", ""});
}

TEST(Gbnf, LeftRecursion) {
  ExpectGbnfTexts("root ::= e\ne ::= e \"+\" t | t\nt ::= t \"*\" [0-9] | [0-9]",
                  {"1", "1+2", "1*2+3*4*5"}, {"+1", "1+", "12", ""});
  ExpectGbnfTexts("root ::= root root | \"a\"", {"a", "aa", "aaaaa"}, {"", "b", "ab"});
  ExpectGbnfTexts("root ::= s\ns ::= s s | s s s | \"a\" | \"\"", {"", "a", "aaaa"}, {"b"});
  // By way of another rule that may be empty.
  ExpectGbnfTexts("root ::= maybe root \"x\" | \"y\"\nmaybe ::= \"-\"?",
                  {"y", "yx", "-yx", "--yxx"}, {"-y", "x", "---yxx"});
}

TEST(Gbnf, CyclesOfRulesThatMayBeEmpty) {
  ExpectGbnfTexts("root ::= a \"!\"\na ::= b | \"x\"\nb ::= a | \"\" | c*\nc ::= b | \"z\"",
                  {"!", "x!", "zz!", "xzx!"}, {"", "y!"});
  ExpectGbnfTexts("root ::= root | root* | \"k\"", {"", "k", "kk"}, {"j"});
  ExpectGbnfTexts("root ::= (root)+ | \"\"", {""}, {"a"});
}

TEST(Gbnf, MutualRecursion) {
  ExpectGbnfTexts(
      "root ::= open | square\nopen ::= \"(\" square* \")\"\nsquare ::= \"[\" open* \"]\"",
      {"()", "([])", "[([()])()]"}, {"(())", "([)]", "", "("});
}

TEST(Gbnf, TokensOfTheVocabulary) {
  const auto grammar = Parsed("root ::= <think> (!<[9]>)* [a-z]* <[9]>");
  NaiveRecognizer recognizer(*grammar);
  const auto accepts = [&](std::string_view text) {
    std::vector<testing::TextSymbol> symbols = TextSymbols(text);
    for (testing::TextSymbol& symbol : symbols) {
      if (symbol.value >= '0' && symbol.value <= '9') symbol = {true, symbol.value - '0'};
    }
    return recognizer.Accepts(symbols);
  };
  EXPECT_TRUE(accepts("79"));
  EXPECT_TRUE(accepts("78abc9"));
  EXPECT_TRUE(accepts("7789"));
  EXPECT_FALSE(accepts("7"));
  EXPECT_FALSE(accepts("799"));
  EXPECT_FALSE(accepts("7a8b9"));
  EXPECT_FALSE(accepts("<think>9"));
}

// Rules that do not call themselves stand where they are used, so that they are part of automata.
TEST(Gbnf, OnlyRecursionNeedsRules) {
  EXPECT_TRUE(Parsed("root ::= a a\na ::= b b\nb ::= [0-9]+")->rules.empty());
  EXPECT_TRUE(Parsed("root ::= a* | broken\nbroken ::= broken \"x\"\na ::= \"q\"")->rules.empty());
  const auto json = Parsed(
      "root ::= value\nvalue ::= object | \"1\"\nobject ::= \"{\" pair (\",\" pair)* \"}\"\n"
      "pair ::= key \":\" value\nkey ::= \"\\\"\" [a-z]* \"\\\"\"");
  ASSERT_EQ(json->rules.size(), 1U);
  EXPECT_EQ(json->rules[0].name, "value");
}

// Each rule has the one before it twice: as texts in place they would have 2^60 symbols.
TEST(Gbnf, RulesThatGrowStayRules) {
  std::string source = "root ::= r60\nr0 ::= \"a\"?\n";
  for (int i = 1; i <= 60; ++i) source += fmt::format("r{} ::= r{} \"-\"? r{}\n", i, i - 1, i - 1);
  const auto grammar = Parsed(source);
  EXPECT_THAT(grammar->rules.size(), ::testing::AllOf(::testing::Gt(3U), ::testing::Lt(60U)));
  EXPECT_LT(grammar->pool.n_expressions(), 100'000U);
  // One rule of average size in thousands of places.
  source = "root ::= r4000\nr0 ::= " + RepeatedPart("[a-c] [b-d] ", 12'000) + "\n";
  for (int i = 1; i <= 4000; ++i) source += fmt::format("r{} ::= r0 \"{}\" | r{}\n", i, i, i - 1);
  EXPECT_LT(Parsed(source)->pool.n_expressions(), 500'000U);
}

TEST(Gbnf, RulesWithoutTextsArePruned) {
  ExpectGbnfTexts(
      "root ::= \"a\" | loop | \"b\" none* | \"c\" none\nloop ::= \"x\" loop\nnone ::= [\\uD800]\n",
      {"a", "b"}, {"c", "x", "bx"});
  const ConstraintError error = GbnfError("\nroot ::= \"x\" other\nother ::= root | other other");
  EXPECT_EQ(error.code, ConstraintErrorCode::kInvalidGrammar);
  ASSERT_EQ(error.issues.size(), 1U);
  EXPECT_EQ(error.issues[0].pointer, "2:1");
  EXPECT_THAT(error.issues[0].reason, ::testing::StartsWith("expected a rule root"));
}

struct BadGrammar {
  std::string_view source;
  std::string_view place;
  std::string_view reason;  // a part of it
};

TEST(Gbnf, ErrorsSayWhere) {
  const std::vector<BadGrammar> cases = {
      {"", "1:1", "expected a rule with the name root, found none"},
      {"item ::= \"a\"", "1:1", "expected a rule with the name root, found none"},
      {"root = \"a\"", "1:6", "expected ::= behind the name root, found ="},
      {"::= \"a\"", "1:1", "expected the name of a rule, found :"},
      {"root ::= \"é\" é", "1:14", "expected a symbol, | or the end of the line, found é"},
      {"root ::= \"a\n\n", "1:10", "expected \" of the literal before the end of the grammar"},
      {"root ::= [abc\n", "1:10", "expected ] of the class before the end of the grammar"},
      {"root ::= []", "1:11", "expected a character of the class, found ]"},
      {"root ::= [z-a]", "1:11", "expected a range whose last code point"},
      {"root ::= \"\\q\"", "1:12", "behind a backslash, found q"},
      {"root ::= \"\\x4\"", "1:14", "expected 2 hexadecimal digits of an escape, found \""},
      {"root ::= \"\\U00110000\"", "1:11", "expected a code point up to U+10FFFF"},
      {"root ::= \"\\uD83D\"", "1:11", "expected a code point, found a surrogate"},
      {"root ::=\n  (\"a\"\n", "3:1", "expected ) of the group that begins at 2:3, found the end"},
      {"root ::= (a\nb ::= c", "2:3", "| or ) of the group that begins at 1:10, found :"},
      {"root ::= \"a\")", "1:13", "expected a symbol, | or the end of the line, found )"},
      {"root ::= *", "1:10", "expected a symbol or a group to repeat, found *"},
      {"root ::= \"a\" | +", "1:16", "expected a symbol or a group to repeat, found +"},
      {"root ::= (?)", "1:11", "expected a symbol or a group to repeat, found ?"},
      {"root ::= \"a\"{}", "1:14", "expected a number of repetitions within {}, found }"},
      {"root ::= \"a\"{2,1}", "1:14", "expected a maximum of at least 2, found 1"},
      {"root ::= \"a\"{2;3}", "1:15", "expected , or }, found ;"},
      {"root ::= \"a\"{2", "1:15", "expected , or }, found the end of the grammar"},
      {"root ::= \"a\"\nroot ::= \"b\"", "2:1", "expected one definition of root"},
      {"root ::= <[1000]>", "1:12", "expected the id of a token below 1000, found 1000"},
      {"root ::= <[x]>", "1:12", "expected the id of a token behind <[, found x"},
      {"root ::= <[5>", "1:13", "expected ]> behind the id of a token, found >"},
      {"root ::= <nothing>", "1:10", "expected the text of one token, found <nothing>"},
      {"root ::= <think\n>", "1:10", "expected > of the token before the end of the line"},
      {"root ::= !\"a\"", "1:11", "expected a token, <[id]> or <text>, behind !, found \""},
      {"root ::= \"a\"\n  \"b\"", "2:3", "expected the name of a rule, found \""},
      {"root ::= \"\xFF\"", "1:11", "expected UTF-8, found other bytes"},
      {"root ::= item\n", "1:10", "expected a definition of the rule item, found none"},
  };
  for (const BadGrammar& bad : cases) {
    const ConstraintError error = GbnfError(bad.source);
    EXPECT_EQ(error.code, ConstraintErrorCode::kInvalidGrammar) << bad.source;
    ASSERT_EQ(error.issues.size(), 1U) << bad.source;
    EXPECT_EQ(error.issues[0].pointer, bad.place) << bad.source;
    EXPECT_THAT(error.issues[0].reason, ::testing::HasSubstr(bad.reason)) << bad.source;
    EXPECT_EQ(error.message,
              fmt::format("grammar, {}: {}", error.issues[0].pointer, error.issues[0].reason));
  }
}

TEST(Gbnf, EveryUndefinedRuleIsNamed) {
  const ConstraintError error = GbnfError("root ::= a |\n  b a\nc ::= d");
  ASSERT_EQ(error.issues.size(), 3U);
  EXPECT_EQ(error.issues[0].pointer, "1:10");
  EXPECT_EQ(error.issues[1].pointer, "2:3");
  EXPECT_EQ(error.issues[2].pointer, "3:7");
  std::string many = "root ::= r1";
  for (int i = 2; i < 30; ++i) many += fmt::format(" r{}", i);
  EXPECT_EQ(GbnfError(many).issues.size(), kMaxIssues);
  EXPECT_EQ(GbnfError("other" + many.substr(4)).issues.size(), kMaxIssues);
}

TEST(Gbnf, Limits) {
  const auto expect_too_large = [](const std::string& source) {
    const ConstraintError error = GbnfError(source);
    EXPECT_EQ(error.code, ConstraintErrorCode::kTooLarge) << error.message;
  };
  const auto nested = [](int depth) {
    return "root ::= " + std::string(depth, '(') + "\"a\"" + std::string(depth, ')');
  };
  ExpectGbnfTexts(nested(256), {"a"}, {""});
  expect_too_large(nested(257));
  expect_too_large("root ::= " + std::string(60'000, '('));
  expect_too_large("root ::= \"a\"" + std::string(60'000, '?'));
  std::string suffixes = "\"a\"";
  for (int i = 0; i < 200; ++i) suffixes = "(" + suffixes + "{2})+*";
  expect_too_large("root ::= " + suffixes);
  expect_too_large("root ::= \"a\"{1000001}");
  expect_too_large("root ::= \"a\"{1,99999999999999999999}");
  expect_too_large("root ::= \"" + std::string(1 << 20, 'a') + "\"");
  std::string rules = "root ::= r1\n";
  for (int i = 1; i < 4095; ++i) rules += fmt::format("r{} ::= r{}\n", i, i + 1);
  ExpectGbnfTexts(rules + "r4095 ::= \"a\"\n", {"a"}, {""});
  expect_too_large(rules + "r4095 ::= r4096\nr4096 ::= \"a\"\n");
}

// Large and hostile texts are read in time, whatever becomes of them.
TEST(Gbnf, LargeTexts) {
  constexpr std::size_t kBytes = 500'000;
  Grammar grammar;
  for (const std::string& body :
       {RepeatedPart("root ", kBytes), RepeatedPart("\"a\" ", kBytes),
        RepeatedPart("[a-z] | ", kBytes), RepeatedPart("()", kBytes), RepeatedPart("| ", kBytes),
        RepeatedPart("\"a\"?", kBytes / 20), RepeatedPart("#", kBytes),
        RepeatedPart("<[5]>", kBytes), "[" + RepeatedPart("a-zé", kBytes) + "]"}) {
    (void)ParseGbnf(grammar, "root ::= " + body, Options());
  }
}

}  // namespace
}  // namespace fathom::constraint
