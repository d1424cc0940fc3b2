#include "constraint/dsml_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fathom::constraint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

MarkupNames ReadNames(std::string_view schema) {
  const Result<JsonValue> value = ParseJson(schema);
  EXPECT_TRUE(value) << schema;
  return NamesForMarkup(value.value_or(JsonValue()));
}

TEST(DsmlNames, Properties) {
  const MarkupNames names = ReadNames(R"({"properties": {"b": {}, "a": true}, "required": ["a"]})");
  EXPECT_THAT(names.declared, ElementsAre("b", "a"));
  EXPECT_FALSE(names.has_others);
  EXPECT_THAT(ReadNames(R"({"properties": {"a": {}}, "required": ["z"]})").declared,
              ElementsAre("a", "z"));
}

TEST(DsmlNames, WithoutPropertiesAnyName) {
  EXPECT_TRUE(ReadNames("{}").has_others);
  EXPECT_TRUE(ReadNames("true").has_others);
  EXPECT_TRUE(ReadNames("[1]").has_others);
  EXPECT_TRUE(ReadNames(R"({"type": "object", "required": ["a"]})").has_others);
  for (const std::string_view schema :
       {"null", R"({"type": "object", "properties": {}})", R"({"additionalProperties": false})"}) {
    const MarkupNames names = ReadNames(schema);
    EXPECT_THAT(names.declared, IsEmpty()) << schema;
    EXPECT_FALSE(names.has_others) << schema;
  }
}

TEST(DsmlNames, KeywordsThatAllowOthers) {
  for (const std::string_view keyword :
       {R"("additionalProperties": true)", R"("additionalProperties": {"type": "string"})",
        R"("patternProperties": {"^x": {}})", R"("unevaluatedProperties": {})",
        R"("$ref": "https://example.org/schema")", R"("$ref": "#/nowhere")", R"("$ref": "#name")",
        R"("$dynamicRef": "#x")", R"("anyOf": [{"properties": {}}, true])"}) {
    const MarkupNames names =
        ReadNames(R"({"properties": {"a": {}}, )" + std::string(keyword) + "}");
    EXPECT_THAT(names.declared, ElementsAre("a")) << keyword;
    EXPECT_TRUE(names.has_others) << keyword;
  }
  for (const std::string_view keyword :
       {R"("additionalProperties": false)", R"("patternProperties": {})",
        R"("items": {"additionalProperties": true})", R"("anyOf": [{"properties": {}}, false])"}) {
    EXPECT_FALSE(ReadNames(R"({"properties": {"a": {}}, )" + std::string(keyword) + "}").has_others)
        << keyword;
  }
}

TEST(DsmlNames, SchemasOfTheSameObject) {
  const MarkupNames names = ReadNames(R"({
    "allOf": [{"properties": {"a": {"properties": {"not-this": {}}}}}, {"$ref": "#/$defs/x~1%79"}],
    "oneOf": [{"anyOf": [{"properties": {"b": {}}}]}],
    "if": {"properties": {"c": {"const": 1}}},
    "then": {"properties": {"d": {}}},
    "else": {"properties": {"e": {}}},
    "dependentSchemas": {"a": {"properties": {"f": {}}}},
    "dependencies": {"a": ["b"], "b": {"properties": {"g": {}}}},
    "$defs": {"x/y": {"properties": {"h": {}}, "$ref": "#"}, "z": {"properties": {"no": {}}}}
  })");
  EXPECT_THAT(names.declared, UnorderedElementsAre("a", "b", "c", "d", "e", "f", "g", "h"));
  EXPECT_FALSE(names.has_others);
}

TEST(DsmlNames, ManyReferencesEndInAnyName) {
  std::string schema = R"({"$defs": {"a": {"properties": {"x": {}}}}, "allOf": [)";
  for (int i = 0; i < 300; ++i) schema += R"({"$ref": "#/$defs/a"},)";
  schema.back() = ']';
  const MarkupNames names = ReadNames(schema + "}");
  EXPECT_THAT(names.declared, ElementsAre("x"));
  EXPECT_TRUE(names.has_others);
}

TEST(DsmlNames, WhatTagsCanHold) {
  constexpr std::string_view kText = "｜DSML｜";
  for (const std::string_view name : {"a", "", "größe", "a b<c>", "x-y.z/ü"}) {
    EXPECT_TRUE(IsMarkupParameterName(name, kText)) << name;
  }
  for (const std::string& name : {std::string("a\"b"), std::string("a\nb"), std::string("\0", 1),
                                  std::string("｜DSML｜"), std::string(449, 'x')}) {
    EXPECT_FALSE(IsMarkupParameterName(name, kText)) << name;
    EXPECT_FALSE(IsMarkupToolName(name, kText)) << name;
  }
  EXPECT_TRUE(IsMarkupToolName("get_weather", kText));
  EXPECT_FALSE(IsMarkupToolName("", kText));
  EXPECT_FALSE(IsMarkupToolName("a<b", kText));
  EXPECT_FALSE(IsMarkupToolName("a>b", kText));
}

}  // namespace
}  // namespace fathom::constraint
