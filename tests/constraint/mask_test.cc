#include "constraint/masks/mask_builder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "constraint/masks/vocabulary.h"
#include "constraint/schema/json_schema.h"
#include "tests/constraint/compiled_schema.h"
#include "tests/constraint/grammar_reader.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {
namespace {

constexpr Token kEnd = 1;

// Grammars whose masks differ in kind: nested, free strings, words, ambiguous.
constexpr std::string_view kGrammars[] = {
    R"g(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? ws "}"
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?
ws ::= [ \n]{0,2}
)g",
    R"g(root ::= [A-Z] [a-z]{2,40} (" " [a-z]+){0,5} [.!?])g",
    R"g(root ::= "\"" [^"\\\x00-\x1f]{3,12} "\"")g",
    R"g(root ::= root root | "a" | "ab" | "the" | " ")g",
    R"g(root ::= .* "end")g",
};

class Masks : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    const Result<Tokenizer> tokenizer = Tokenizer::Load(testing::ProjectPath("models/fairy"));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    vocabulary_.emplace(*tokenizer, tokenizer->vocab_size() + 7, std::vector<Token>{kEnd});
  }

  std::optional<ConstraintVocabulary> vocabulary_;
};

// Draws a token of a mask.
Token Draw(const TokenSet& tokens, std::mt19937& random, std::int64_t vocab_size) {
  std::vector<Token> allowed;
  for (Token token = 0; token < vocab_size; ++token) {
    if (tokens.Has(token)) allowed.push_back(token);
  }
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

// Every mask of random texts has the tokens that can be read one by one, with slices and the cache
// as without; it is never empty, and has the end exactly where the text may end.
void CheckMasks(GrammarReader& reader, const ConstraintVocabulary& vocabulary) {
  Matcher& matcher = reader.matcher();
  MaskBuilder masks(matcher, vocabulary, 1 << 20);
  MaskBuilder plain(matcher, vocabulary, 1);
  plain.set_is_plain(true);
  std::mt19937 random(7);
  for (int text = 0; text < 12; ++text) {
    MatcherState state = matcher.Begin();
    for (int n = 0; n < 24; ++n) {
      const auto mask = masks.Build(state);
      ASSERT_NE(mask, nullptr);
      ASSERT_GT(mask->n_tokens, 0);
      ASSERT_EQ(mask->tokens.words(), plain.Build(state)->tokens.words());
      ASSERT_EQ(mask->tokens.Has(kEnd), state.accepts);
      if (n % 8 == 0) {
        for (Token token = 0; token < vocabulary.vocab_size(); ++token) {
          MatcherState next;
          const bool can_be_read =
              masks.Advance(state, token, next) || (token == kEnd && state.accepts);
          ASSERT_EQ(mask->tokens.Has(token), can_be_read) << token << vocabulary.Text(token);
        }
      }
      const Token token = Draw(mask->tokens, random, vocabulary.vocab_size());
      if (token == kEnd) break;
      MatcherState next;
      ASSERT_TRUE(masks.Advance(state, token, next));
      state = std::move(next);
    }
  }
  EXPECT_GT(masks.n_hits(), 0);
}

TEST_P(Masks, HaveTheTokensThatCanBeRead) {
  GrammarReader reader = GrammarReader::FromGbnf(GetParam());
  CheckMasks(reader, *vocabulary_);
}

std::string NameOfGrammar(const ::testing::TestParamInfo<std::string_view>& info) {
  constexpr std::string_view kNames[] = {"json", "words", "short_string", "ambiguous", "free"};
  return std::string(kNames[info.index]);
}

INSTANTIATE_TEST_SUITE_P(Grammars, Masks, ::testing::ValuesIn(kGrammars), NameOfGrammar);

// Unique items and ascending keys: masks follow the texts of earlier ones.
class UniqueMasks : public Masks {};

TEST_P(UniqueMasks, HaveTheTokensThatCanBeRead) {
  auto grammar = std::make_unique<Grammar>();
  {
    JsonSchemaCompiler compiler(*grammar, {.layout = {.whitespace = JsonWhitespace::kCompact}});
    const ConstraintResult<ExpressionId> value = compiler.Value(testing::ParseSchema(GetParam()));
    ASSERT_TRUE(value) << value.error().message;
    grammar->start = *value;
  }
  GrammarReader reader(std::move(grammar));
  CheckMasks(reader, *vocabulary_);
}

INSTANTIATE_TEST_SUITE_P(
    Schemas, UniqueMasks,
    ::testing::Values(
        R"({"type":"array","uniqueItems":true,"items":{"enum":["a","an","ant",1,12,null,true]}})",
        R"({"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":1}})",
        R"({"type":"array","uniqueItems":true,"items":{"type":"object","properties":{"a":)"
        R"({"type":"boolean"},"ab":{"enum":[1,10]}},"additionalProperties":false}})",
        R"({"type":"array","uniqueItems":true,"items":{"type":"object","additionalProperties":)"
        R"({"type":"boolean"},"propertyNames":{"pattern":"^[ab]{1,2}$"}}})",
        R"({"type":"array","uniqueItems":true,"minItems":2,"items":{"type":"array","maxItems":2,)"
        R"("items":{"type":"boolean"},"uniqueItems":true}})"));

// Unique and ascending calls whose texts go across rules, with tokens in which calls end and begin.
class UniqueCallMasks : public ::testing::TestWithParam<bool> {};

TEST_P(UniqueCallMasks, HaveTheTokensThatCanBeRead) {
  const bool is_ascending = GetParam();
  const Result<Tokenizer> tokenizer = Tokenizer::Load(testing::ProjectPath("models/fairy"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const ConstraintVocabulary vocabulary(*tokenizer, tokenizer->vocab_size(),
                                        std::vector<Token>{kEnd});
  auto grammar = std::make_unique<Grammar>();
  ExpressionPool& pool = grammar->pool;
  const RuleId word = grammar->AddRule("word");
  grammar->rules[word].body = pool.Repeat(pool.Bytes(ByteSet::Range('a', 'f')), 1, 3);
  const RuleId words = grammar->AddRule("words");
  const ExpressionId more = pool.Concat(pool.Literal(" "), grammar->Call(word));
  grammar->rules[words].body =
      pool.Concat(grammar->Call(word), pool.Concat(pool.Repeat(more, 0, 2), pool.Literal("!")));
  const ExpressionId call =
      is_ascending ? grammar->AscendingCall(words) : grammar->UniqueCall(words);
  grammar->start = pool.Repeat(pool.Concat(call, pool.Optional(pool.Literal("\""))), 1, 6);
  GrammarReader reader(std::move(grammar));
  Matcher& matcher = reader.matcher();
  MaskBuilder masks(matcher, vocabulary, 1 << 20);
  MaskBuilder plain(matcher, vocabulary, 1);
  plain.set_is_plain(true);
  std::mt19937 random(11);
  for (int text = 0; text < 60; ++text) {
    MatcherState state = matcher.Begin();
    for (int n = 0; n < 30; ++n) {
      const auto mask = masks.Build(state);
      ASSERT_NE(mask, nullptr);
      ASSERT_EQ(mask->tokens.words(), plain.Build(state)->tokens.words());
      const Token token = Draw(mask->tokens, random, vocabulary.vocab_size());
      if (token == kEnd || token < 0) break;
      MatcherState next;
      ASSERT_TRUE(masks.Advance(state, token, next));
      state = std::move(next);
    }
  }
  EXPECT_GT(masks.n_hits(), 0);
}

INSTANTIATE_TEST_SUITE_P(Calls, UniqueCallMasks, ::testing::Bool(),
                         [](const auto& call) { return call.param ? "ascending" : "unique"; });

TEST(TokenTrie, VisitsEveryTextOnce) {
  const TokenTrie trie =
      TokenTrie::Make({{"ab", 3}, {"a", 1}, {"abc", 5}, {"b", 2}, {"ab", 4}, {"", 6}});
  ASSERT_EQ(trie.nodes().size(), 4u);
  EXPECT_EQ(trie.nodes()[0].end, 3u);
  EXPECT_EQ(trie.nodes()[3].byte, 'b');
  EXPECT_EQ(std::vector<Token>(trie.TokensAt(1).begin(), trie.TokensAt(1).end()),
            (std::vector<Token>{3, 4}));
  EXPECT_EQ(trie.max_depth(), 3);
}

TEST(TokenTrie, KnowsTheKindsBelow) {
  const TokenTrie trie = TokenTrie::Make({{"\"ab", 1}, {"\"a\"", 2}, {"a\xE4\xB8", 3}},
                                         {{"a7", 4}, {"a\xE4\xB8\x80-", 5}});
  std::vector<std::uint8_t> bytes;
  const auto below = [&](std::string_view text, bool is_plain) -> CharacterClasses {
    const std::size_t begin = is_plain ? trie.plain_begin() : 0;
    const std::size_t end = is_plain ? trie.nodes().size() : trie.plain_begin();
    for (std::size_t i = begin; i < end; ++i) {
      trie.ReadText(i, bytes);
      if (std::string(bytes.begin(), bytes.end()) == text) return trie.KindsBelow(i);
    }
    ADD_FAILURE() << text;
    return 0;
  };
  EXPECT_EQ(below("\"", false), KindBit('a') | kNotPlain);
  EXPECT_EQ(below("\"ab", false), 0u);
  EXPECT_EQ(below("a", false), KindBit(0xE4));
  EXPECT_EQ(below("a\xE4", false), kNotPlain);
  EXPECT_EQ(below("a", true), KindBit('7') | KindBit(0xE4) | KindBit('-'));
  EXPECT_EQ(below("a\xE4\xB8\x80", true), KindBit('-'));
}

TEST(TokenSet, CountsItsTokens) {
  TokenSet tokens(70'000);
  std::int64_t n = 0;
  for (Token token = 0; token < 70'000; token += token % 3 == 0 || token < 30'000 ? 1 : 5) {
    tokens.Add(token);
    ++n;
  }
  EXPECT_EQ(tokens.size(), n);
}

TEST(Slices, HavePlainTextsByLength) {
  EXPECT_EQ(PlainCodePoints("hello"), 5);
  EXPECT_EQ(PlainCodePoints("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"), 3);
  EXPECT_EQ(PlainCodePoints(std::string(30, ' ')), 30);
  EXPECT_EQ(PlainCodePoints(std::string(31, ' ')), 0);
  for (const char* text :
       {"", "a\"", "\\", "a\n", "<b", "\xEF\xBD\x9C", "\xC3", "a\xA4", "\xED\xA0\x80"}) {
    EXPECT_EQ(PlainCodePoints(text), 0) << text;
  }
}

}  // namespace
}  // namespace fathom::constraint
