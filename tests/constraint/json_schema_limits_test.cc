// Schemas that are large, deep or that combine in many ways: they end with an answer or an error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/constraint/compiled_schema.h"

namespace fathom::constraint {
namespace {

using testing::CompiledSchema;

bool IsTooLarge(const CompiledSchema& schema) {
  return schema.Error().starts_with("constraint_too_large");
}

TEST(JsonSchemaLimits, ManyBranches) {
  std::string branches;
  for (int i = 0; i < 10'000; ++i) {
    branches += fmt::format(R"({}{{"properties":{{"k":{{"const":"v{}"}}}},"required":["k"]}})",
                            i == 0 ? "" : ",", i);
  }
  CompiledSchema schema(R"({"type":"object","anyOf":[)" + branches + "]}", {});
  ASSERT_TRUE(schema.ok()) << schema.Error();
  std::string texts;
  for (int i = 0; i < 10'000; ++i)
    texts += fmt::format(R"({}{{"const":"v{}"}})", i == 0 ? "" : ",", i);
  CompiledSchema literals(R"({"anyOf":[)" + texts + "]}");
  EXPECT_TRUE(literals.Accepts(R"("v9999")"));
  EXPECT_FALSE(literals.Accepts(R"("v10000")"));
  CompiledSchema one_of(R"({"oneOf":[)" + branches + "]}", {});
  EXPECT_TRUE(one_of.ok() || IsTooLarge(one_of)) << one_of.Error();
}

TEST(JsonSchemaLimits, AllOfOfAnyOf) {
  std::string list;
  for (int i = 0; i < 30; ++i) {
    list += fmt::format(R"({}{{"anyOf":[{{"required":["a{}"]}},{{"required":["b{}"]}}]}})",
                        i == 0 ? "" : ",", i, i);
  }
  CompiledSchema schema(R"({"type":"object","allOf":[)" + list + "]}");
  EXPECT_TRUE(IsTooLarge(schema)) << schema.Error();
}

// Each case describes the member that tells the cases apart once more, behind a reference.
TEST(JsonSchemaLimits, ManyConditions) {
  std::string conditions;
  std::string kinds;
  constexpr int kConditions = 40;
  for (int i = 0; i < kConditions; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    kinds += fmt::format(R"({}"k{}")", comma, i);
    conditions +=
        comma + fmt::format(R"({{"if":{{"properties":{{"kind":{{"const":"k{}"}}}}}},)", i) +
        R"("then":{"properties":{"kind":{"$ref":"#/$defs/kind"},)" +
        fmt::format(R"("v{}":{{"type":"integer"}}}},"additionalProperties":false}}}})", i);
  }
  CompiledSchema schema(R"({"type":"object","required":["kind"],"allOf":[)" + conditions +
                        R"(],"$defs":{"kind":{"type":"string","enum":[)" + kinds + "]}}}");
  ASSERT_TRUE(schema.ok()) << schema.Error();
  EXPECT_TRUE(schema.Accepts(R"({"kind":"k7","v7":1})"));
  EXPECT_FALSE(schema.Accepts(R"({"kind":"k7","v8":1})"));
  EXPECT_TRUE(schema.Accepts(R"({"kind":"other","v8":"x"})"));
}

// One value excludes several alternatives: 3^12 ways to be none of them, of which 3 are no part of
// another way.
TEST(JsonSchemaLimits, ContrariesWithinOthers) {
  std::string list;
  for (int i = 0; i < 12; ++i) {
    list += fmt::format(
        R"({}{{"properties":{{"kind":{{"const":"x"}},"v{}":{{"type":"integer"}}}},"required":["kind"]}})",
        i == 0 ? "" : ",", i);
  }
  CompiledSchema schema(R"({"type":"object","not":{"anyOf":[)" + list + "]}}");
  ASSERT_TRUE(schema.ok()) << schema.Error();
  EXPECT_TRUE(schema.Accepts(R"({"v0":1})"));
  EXPECT_TRUE(schema.Accepts(R"({"kind":"y","v0":1})"));
  EXPECT_FALSE(schema.Accepts(R"({"kind":"x"})"));
  std::string none = "{";
  std::string all_but_one = "{";
  for (int i = 0; i < 12; ++i) {
    none += fmt::format(R"("v{}":"no",)", i);
    all_but_one += fmt::format(R"("v{}":{},)", i, i == 7 ? "1" : R"("no")");
  }
  EXPECT_TRUE(schema.Accepts(none + R"("kind":"x"})"));
  EXPECT_FALSE(schema.Accepts(all_but_one + R"("kind":"x"})"));
}

// Equal keywords are one goal wherever they stand, but not where more than annotations differs.
TEST(JsonSchemaLimits, EqualSubschemas) {
  testing::ExpectTexts(
      R"({"type":"object","additionalProperties":false,"properties":{
          "a":{"type":"string","maxLength":2,"title":"A"},"b":{"type":"string","maxLength":2},
          "c":{"type":"string","maxLength":3},"d":{"type":"string","maxLength":2,
          "not":{"const":"x"}},"e":{"const":1},"f":{"const":"1"},"g":{"enum":[1,"1"]}}})",
      {R"({"a":"xy","b":"xy","c":"xyz","d":"y","e":1,"f":"1","g":1})", R"({"g":"1"})"},
      {R"({"a":"xyz"})", R"({"b":"xyz"})", R"({"d":"x"})", R"({"e":"1"})", R"({"f":1})"});
}

// Shapes of every kind that lie within each other, and some that only seem to.
TEST(JsonSchemaLimits, AlternativesWithinOthers) {
  testing::ExpectTexts(
      R"({"allOf":[{"anyOf":[{"type":"array","items":{"type":"integer"},"maxItems":2},
          {"type":"array","prefixItems":[{"type":"string"}],"minItems":2}]},
          {"anyOf":[{"type":"array","maxItems":2},{"type":"array","minItems":3,
          "items":{"type":["string","null"]}}]}]})",
      {"[]", "[1,2]", R"(["a",1])", R"(["a",null,"b"])"},
      {"[1,2,3]", R"(["a",1,2])", R"(["a"])", "[null,null,null]"});
  testing::ExpectTexts(
      R"({"allOf":[{"anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
          {"properties":{"b":{"type":"integer"}},"required":["b"]}]},
          {"anyOf":[{"required":["a"]},{"maxProperties":1},
          {"patternProperties":{"^b$":{"minimum":5}},"required":["b"]}]}],"type":"object"})",
      {R"({"a":1})", R"({"a":1,"b":"x","c":2})", R"({"b":1,"a":"x"})", R"({"b":1})",
       R"({"b":5,"c":1})"},
      {R"({"a":"x"})", R"({"b":1,"c":1})", R"({"c":1})"});
  testing::ExpectTexts(
      R"({"allOf":[{"anyOf":[{"type":"number","minimum":3},{"type":"integer"}]},
          {"anyOf":[{"type":"integer"},{"minimum":3,"maximum":5}]}]})",
      {"-1", "3.5", "7"}, {"5.5", "2.5"});
  testing::ExpectTexts(
      R"({"type":"string","allOf":[{"anyOf":[{"maxLength":2},{"pattern":"^a","minLength":4}]},
          {"anyOf":[{"pattern":"^a"},{"minLength":2}]}]})",
      {R"("a")", R"("bb")", R"("abcd")"}, {R"("b")", R"("abc")", R"("bbbb")"});
}

TEST(JsonSchemaLimits, DeepSchemas) {
  std::string deep;
  for (int i = 0; i < 5'000; ++i) deep += R"({"items":)";
  deep += "{}" + std::string(5'000, '}');
  const Result<JsonValue> value = ParseJson(deep, {.max_depth = 10'000});
  ASSERT_TRUE(value);
  Grammar grammar;
  JsonSchemaCompiler compiler(grammar, {});
  const auto result = compiler.Value(*value);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ConstraintErrorCode::kTooLarge);
}

TEST(JsonSchemaLimits, LongChainsOfReferences) {
  std::string properties;
  std::string references;
  constexpr int kLength = 3'000;
  for (int i = 0; i < kLength; ++i) {
    const int next = (i + 1) % kLength;
    properties += fmt::format(R"({}"d{}":{{"properties":{{"p":{{"$ref":"#/$defs/d{}"}}}}}})",
                              i == 0 ? "" : ",", i, next);
    references += fmt::format(R"({}"d{}":{{"$ref":"#/$defs/d{}"}})", i == 0 ? "" : ",", i, next);
  }
  CompiledSchema nested(R"({"$ref":"#/$defs/d0","$defs":{)" + properties + "}}");
  ASSERT_TRUE(nested.ok()) << nested.Error();
  EXPECT_TRUE(nested.Accepts(R"({"p":{"p":1}})"));
  CompiledSchema cycle(R"({"$ref":"#/$defs/d0","$defs":{)" + references + "}}");
  EXPECT_FALSE(cycle.ok());
}

TEST(JsonSchemaLimits, NestedCounts) {
  std::string schema = R"({"type":"boolean"})";
  for (int i = 0; i < 20; ++i) {
    schema = R"({"type":"array","minItems":0,"maxItems":999,"items":)" + schema + "}";
  }
  CompiledSchema nested(schema);
  EXPECT_TRUE(nested.ok()) << nested.Error();
  CompiledSchema pattern(
      R"({"pattern":"^(((a{0,999}){0,999}){0,999}){0,999}$","maxLength":1000000})");
  EXPECT_TRUE(pattern.ok() || IsTooLarge(pattern)) << pattern.Error();
  CompiledSchema lengths(R"({"minLength":1000000,"maxLength":1000000})");
  EXPECT_TRUE(lengths.ok());
}

TEST(JsonSchemaLimits, ManyPatternsAndProperties) {
  std::string patterns;
  for (int i = 0; i < 40; ++i) {
    patterns += fmt::format(R"({}"x{}":{{"minimum":{}}})", i == 0 ? "" : ",", i, i);
  }
  CompiledSchema overlapping(R"({"patternProperties":{)" + patterns + "}}");
  EXPECT_TRUE(IsTooLarge(overlapping)) << overlapping.Error();
  std::string properties;
  for (int i = 0; i < 15'000; ++i) {
    properties += fmt::format(R"({}"p{}":{{"type":"integer"}})", i == 0 ? "" : ",", i);
  }
  CompiledSchema wide(R"({"type":"object","additionalProperties":false,"properties":{)" +
                      properties + "}}");
  EXPECT_TRUE(wide.ok()) << wide.Error();
  CompiledSchema counted(R"({"type":"object","minProperties":200,"properties":{)" + properties +
                         "}}");
  EXPECT_TRUE(counted.ok() || IsTooLarge(counted));
}

}  // namespace
}  // namespace fathom::constraint
