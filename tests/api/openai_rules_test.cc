#include "api/common/openai_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::api {
namespace {

using ::testing::ElementsAre;

// "pointer keyword" of each issue.
std::vector<std::string> Broken(const std::string& schema) {
  std::vector<std::string> issues;
  for (const ConstraintIssue& issue : BrokenOpenAiRules(*ParseJson(schema))) {
    EXPECT_NE(issue.reason, "");
    issues.push_back(issue.pointer + " " + issue.keyword);
  }
  return issues;
}

TEST(OpenAiRulesTest, SchemasThatOpenAiTakes) {
  EXPECT_THAT(Broken(R"({"type": "object", "additionalProperties": false, "required": ["a", "b"],
      "properties": {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/$defs/b"}},
      "$defs": {"b": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {},
          "required": [], "additionalProperties": false}]}}})"),
              ElementsAre());
}

TEST(OpenAiRulesTest, TheRootIsAnObject) {
  EXPECT_THAT(Broken(R"({"anyOf": [{"type": "string"}]})"), ElementsAre(" type"));
  EXPECT_THAT(Broken("true"), ElementsAre(" type"));
  EXPECT_THAT(Broken("null"), ElementsAre(" type"));
}

TEST(OpenAiRulesTest, ObjectsAreClosedAndAllTheirPropertiesRequired) {
  EXPECT_THAT(Broken(R"({"type": "object", "additionalProperties": false, "required": ["a/b~"],
      "properties": {"a/b~": {"type": "array", "items": {"type": "object",
          "properties": {"c": {}}, "additionalProperties": {}}}}})"),
              ElementsAre("/properties/a~1b~0/items additionalProperties",
                          "/properties/a~1b~0/items required"));
  EXPECT_THAT(Broken(R"({"type": "object", "additionalProperties": false, "$defs": {"d":
      {"anyOf": [{}, {"type": ["object", "null"]}]}}})"),
              ElementsAre("/$defs/d/anyOf/1 additionalProperties"));
}

TEST(OpenAiRulesTest, AFewIssuesAreEnough) {
  std::string schema = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 1000; ++i) {
    schema += (i == 0 ? "\"" : ", \"") + std::to_string(i) + R"(": {"type": "object"})";
  }
  EXPECT_EQ(Broken(schema + "}}").size(), kMaxIssues);
}

}  // namespace
}  // namespace fathom::api
