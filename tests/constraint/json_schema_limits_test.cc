// Schemas that are large, deep or that combine in many ways: they end with an answer or an error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/constraint/compiled_schema.h"

namespace fathom {
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
}  // namespace fathom
