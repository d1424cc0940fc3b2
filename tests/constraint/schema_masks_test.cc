// Masks of JSON schemas equal those that read every token byte by byte.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "constraint/masks/mask_builder.h"
#include "constraint/masks/vocabulary.h"
#include "constraint/schema/json_schema.h"
#include "tests/constraint/compiled_schema.h"
#include "tests/constraint/grammar_reader.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::constraint {
namespace {

constexpr Token kEndOfText = 1;
constexpr std::size_t kLongestToken = 32;

struct SchemaWithTexts {
  std::string_view name;
  std::string_view schema;
  std::vector<std::string> texts;
};

// Schemas in the manner of those that files declare: each has a way of its own to leave plain text.
const std::vector<SchemaWithTexts>& Schemas() {
  static const std::vector<SchemaWithTexts> schemas = {
      {"open_objects",
       R"({"type":"object","properties":{"name":{"type":"string"},"version":{"type":"integer"},
           "names":{"type":"array","items":{"type":"string"}}},"required":["name"],
           "additionalProperties":{"type":["string","number","null","boolean"]}})",
       {R"({"name":"a \"b\" c","version":12,"names":["x","yz"],"nam":null,"names2":-1.5e3})",
        R"({ "name" : "", "0" : "", "versions" : true })"}},
      {"patterns",
       R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]+-[0-9]{2,4}$"},
           "when":{"type":"string","format":"date-time"},"find":{"type":"string","pattern":"fo+d"},
           "hex":{"type":"string","pattern":"^[0-9a-fA-F]{8,40}$"}},
           "patternProperties":{"^x-":{"type":"string"},"^[A-Z_]+$":{"type":"integer"}},
           "additionalProperties":false})",
       {R"({"id":"the-2024","when":"2024-05-06T07:08:09Z","find":"a food","x-y z":"q","A_B":3})",
        R"({"hex":"00ffAA991","x-":""})"}},
      {"tuple_keys",
       R"x({"type":"object","propertyNames":{"pattern":"^\\(\\s*('[^']*'\\s*,\\s*){2}'[^']*'\\s*\\)$"},
           "additionalProperties":{"type":"number"}})x",
       {R"x({"('a', 'b','c d')":1,"('a', 'b','c e')":2.5,"('','','')":0})x"}},
      {"unique_items",
       R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
       {R"(["a","ab","","b c",",","\n"])", R"(["",",",",\",\"",":"])"}},
      {"unique_numbers",
       R"({"type":"array","items":{"type":["integer","boolean"]},"uniqueItems":true})",
       {R"([1,12,123,2,-1,1234,true,false,0])"}},
      {"unique_choices",
       R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true,
           "items":{"enum":["","a","ab","abc",1,12]}}},"additionalProperties":false})",
       {R"({"a":["a","ab",12,"",1,"abc"]})"}},
      {"counted_strings",
       R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":7}})",
       {R"(["ab","äöüß","a\nb\u00e9x","1234567"])"}},
      {"counted_items",
       R"({"type":"object","minProperties":2,"maxProperties":3,"additionalProperties":
           {"type":"array","minItems":1,"maxItems":2,"items":{"type":"integer","minimum":-5,
           "maximum":250}}})",
       {R"({"a":[1],"b":[250,-5],"c":[0]})"}},
      {"recursive",
       R"({"$ref":"#/$defs/node","$defs":{"node":{"anyOf":[{"type":"string","minLength":1},
           {"type":"object","properties":{"left":{"$ref":"#/$defs/node"},
           "right":{"$ref":"#/$defs/node"}},"additionalProperties":{"$ref":"#/$defs/node"}},
           {"type":"array","items":{"$ref":"#/$defs/node"}}]}}})",
       {R"({"left":["a",{"right":"b"}],"lefts":"c","r":[[],{}]})"}},
      {"choices",
       R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number",
           "exclusiveMinimum":0}},"required":["kind","r"]},{"type":"object","properties":
           {"kind":{"const":"circular"},"s":{"type":"string","maxLength":300}},
           "required":["kind"]}]})",
       {R"({"kind":"circle","r":0.25,"more":[true,{"x":"y"}]})",
        R"({"kind":"circular","s":"It was. \\ <b>"})"}},
      {"anything", R"({})", {R"({"a":[1,2.0,"x",{"b":null}],"":false})"}},
  };
  return schemas;
}

// A vocabulary, and its tokens by their texts.
struct Tokens {
  explicit Tokens(const Tokenizer& tokenizer)
      : vocabulary(tokenizer, tokenizer.vocab_size() + 7, std::vector<Token>{kEndOfText}) {
    for (Token token = 0; token < vocabulary.vocab_size(); ++token) {
      by_text.emplace(vocabulary.Text(token), token);
    }
  }
  // The longest token of a mask that a text begins with; -1: there is none.
  Token Longest(const TokenSet& mask, std::string_view text) const {
    for (std::size_t n = std::min(text.size(), kLongestToken); n > 0; --n) {
      const auto found = by_text.find(text.substr(0, n));
      if (found != by_text.end() && mask.Has(found->second)) return found->second;
    }
    return -1;
  }

  ConstraintVocabulary vocabulary;
  std::map<std::string_view, Token> by_text;
};

class SchemaMasks : public ::testing::TestWithParam<SchemaWithTexts> {
 protected:
  void SetUp() override {
    grammar_ = std::make_unique<Grammar>();
    JsonSchemaCompiler compiler(*grammar_, {.strict = true});
    ConstraintResult<ExpressionId> value = compiler.Value(testing::ParseSchema(GetParam().schema));
    ASSERT_TRUE(value);
    grammar_->start = *value;
  }

  // Walks along the texts, and from each place on for a few random tokens.
  void Compare(const Tokens& tokens, int n_random) {
    GrammarReader reader(std::move(grammar_));
    Matcher& matcher = reader.matcher();
    MaskBuilder masks(matcher, tokens.vocabulary, 1 << 20);
    MaskBuilder uncached(matcher, tokens.vocabulary, 1);
    MaskBuilder plain(matcher, tokens.vocabulary, 1);
    plain.set_is_plain(true);
    std::mt19937 random(3);
    const auto build = [&](const MatcherState& state, std::string_view where) {
      const auto mask = masks.Build(state);
      EXPECT_EQ(mask->tokens.words(), plain.Build(state)->tokens.words()) << where;
      EXPECT_EQ(mask->tokens.words(), uncached.Build(state)->tokens.words()) << where;
      EXPECT_EQ(mask->n_tokens > 0, true) << where;
      return mask;
    };
    for (const std::string& text : GetParam().texts) {
      MatcherState state = matcher.Begin();
      for (std::size_t at = 0; at < text.size() && !HasFailure();) {
        const std::string_view rest = std::string_view(text).substr(at);
        const Token token = tokens.Longest(build(state, rest)->tokens, rest);
        ASSERT_GE(token, 0) << text << " at " << rest;
        for (int n = 0; n < n_random; ++n) {
          MatcherState other = state;
          for (int i = 0; i < 2 && !other.leaves.empty(); ++i) {
            other = Follow(masks, other, build(other, rest)->tokens, random);
          }
        }
        MatcherState next;
        ASSERT_TRUE(masks.Advance(state, token, next));
        state = std::move(next);
        at += tokens.vocabulary.Text(token).size();
      }
      EXPECT_TRUE(state.accepts) << text;
    }
  }

  static MatcherState Follow(MaskBuilder& masks, const MatcherState& state, const TokenSet& mask,
                             std::mt19937& random) {
    std::vector<Token> allowed;
    for (Token token = 0; token < static_cast<Token>(mask.words().size() * 64); ++token) {
      if (mask.Has(token) && token != kEndOfText) allowed.push_back(token);
    }
    MatcherState next;
    if (allowed.empty()) return next;
    EXPECT_TRUE(masks.Advance(state, allowed[random() % allowed.size()], next));
    return next;
  }

  std::unique_ptr<Grammar> grammar_;
};

TEST_P(SchemaMasks, EqualPlainOnesWithASmallVocabulary) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(testing::ProjectPath("models/fairy"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  Compare(Tokens(*tokenizer), 2);
}

TEST_P(SchemaMasks, EqualPlainOnesWithTheFullVocabulary) {
  const auto path = testing::SharedData("data/tokenizer/tokenizer.reconstructed.json");
  if (!path) GTEST_SKIP() << testing::kNoSharedData;
  const Result<Tokenizer> tokenizer = Tokenizer::Load(*path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  Compare(Tokens(*tokenizer), 0);
}

std::string NameOfSchema(const ::testing::TestParamInfo<SchemaWithTexts>& info) {
  return std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Schemas, SchemaMasks, ::testing::ValuesIn(Schemas()), NameOfSchema);

}  // namespace
}  // namespace fathom::constraint
