// The parameters of tools (docs/spec/constrained.md 2.5).
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/constraint/compiled_schema.h"

namespace fathom::constraint {
namespace {

// The forms of a schema and the texts of their parameters.
class ArgumentReader {
 public:
  explicit ArgumentReader(std::string_view schema, JsonSchemaOptions options = DsmlOptions())
      : compiler_(grammar_, std::move(options)), recognizer_(grammar_) {
    ConstraintResult<std::vector<ToolArguments>> forms =
        compiler_.Arguments(testing::ParseSchema(schema));
    if (forms) {
      forms_ = std::move(*forms);
    } else {
      error_ = std::string(Name(forms.error().code));
    }
  }
  static JsonSchemaOptions DsmlOptions() {
    return {.strict = true, .closed_objects = true, .forbidden = {"<|X|", "</|X|"}};
  }

  const std::vector<ToolArguments>& forms() const { return forms_; }
  const std::string& error() const { return error_; }
  const std::vector<std::string>& relaxed() const { return compiler_.relaxed(); }
  const ToolParameter* Find(std::string_view name, std::size_t form = 0) const {
    for (const ToolParameter& parameter : forms_.at(form).parameters) {
      if (parameter.name == name) return &parameter;
    }
    return nullptr;
  }
  bool Takes(const std::optional<ExpressionId>& value, std::string_view text) {
    if (!value) return false;
    grammar_.start = *value;
    return recognizer_.Accepts(text);
  }

 private:
  Grammar grammar_;
  JsonSchemaCompiler compiler_;
  testing::NaiveRecognizer recognizer_;
  std::vector<ToolArguments> forms_;
  std::string error_;
};

TEST(JsonSchemaArguments, TextsAndJsonApart) {
  ArgumentReader reader(
      R"({"type":"object","properties":{"s":{"type":"string"},)"
      R"("n":{"type":"integer"},"u":{"type":["string","null"]},)"
      R"("e":{"enum":["a\"b","c"]},"o":{"$ref":"#/$defs/o"}},"required":["s","o"],)"
      R"("$defs":{"o":{"type":"object","properties":{"k":{"type":"string"}}}}})");
  ASSERT_EQ(reader.forms().size(), 1u) << reader.error();
  EXPECT_FALSE(reader.forms()[0].others.has_value());
  const ToolParameter& s = *reader.Find("s");
  EXPECT_TRUE(s.required);
  EXPECT_FALSE(s.json.has_value());
  EXPECT_TRUE(reader.Takes(s.text, "a \"raw\" text\nof \\ lines"));
  EXPECT_FALSE(reader.Takes(s.text, "a </|X|parameter>"));
  EXPECT_FALSE(reader.Takes(s.text, "\xff"));
  const ToolParameter& n = *reader.Find("n");
  EXPECT_FALSE(n.required);
  EXPECT_FALSE(n.text.has_value());
  EXPECT_TRUE(reader.Takes(n.json, "12"));
  const ToolParameter& u = *reader.Find("u");
  EXPECT_TRUE(reader.Takes(u.text, "null"));
  EXPECT_TRUE(reader.Takes(u.json, "null"));
  EXPECT_FALSE(reader.Takes(u.json, "\"x\""));
  EXPECT_TRUE(reader.Takes(reader.Find("e")->text, "a\"b"));
  EXPECT_FALSE(reader.Takes(reader.Find("e")->text, "d"));
  const ToolParameter& o = *reader.Find("o");
  EXPECT_TRUE(reader.Takes(o.json, R"({"k":"v<"})"));
  EXPECT_FALSE(reader.Takes(o.json, R"({"k":"v<|X|"})"));
  EXPECT_FALSE(reader.Takes(o.json, R"({"j":1})"));
}

TEST(JsonSchemaArguments, KeywordsActOnRawText) {
  ArgumentReader reader(R"({"properties":{"p":{"type":"string","pattern":"^\"[a-z]+\\n$"},)"
                        R"("l":{"type":"string","minLength":2,"maxLength":3}}})");
  ASSERT_EQ(reader.forms().size(), 1u) << reader.error();
  EXPECT_TRUE(reader.Takes(reader.Find("p")->text, "\"ab\n"));
  EXPECT_FALSE(reader.Takes(reader.Find("p")->text, "ab\n"));
  EXPECT_TRUE(reader.Takes(reader.Find("l")->text, "\"\xc3\xa9\\"));
  EXPECT_FALSE(reader.Takes(reader.Find("l")->text, "abcd"));
}

TEST(JsonSchemaArguments, OpenAndClosed) {
  EXPECT_FALSE(ArgumentReader(R"({"type":"object","properties":{}})").forms().at(0).others);
  EXPECT_TRUE(ArgumentReader(R"({"type":"object"})").forms().at(0).others);
  EXPECT_TRUE(ArgumentReader("null").forms().at(0).others);
  ArgumentReader open(R"({"properties":{"a":false},"additionalProperties":{"type":"string"}})");
  ASSERT_TRUE(open.forms().at(0).others);
  EXPECT_TRUE(open.Takes(open.forms()[0].others->text, "x"));
  EXPECT_FALSE(open.forms()[0].others->json);
  EXPECT_EQ(open.forms()[0].excluded, std::vector<std::string>{"a"});
}

TEST(JsonSchemaArguments, UnionsBecomeForms) {
  ArgumentReader reader(R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],)"
                        R"("oneOf":[{"properties":{"k":{"const":"a"},"v":{"type":"integer"}}},)"
                        R"({"properties":{"k":{"const":"b"}}}]})");
  ASSERT_EQ(reader.forms().size(), 2u) << reader.error();
  EXPECT_TRUE(reader.Takes(reader.Find("k", 0)->text, "a"));
  EXPECT_FALSE(reader.Takes(reader.Find("k", 0)->text, "b"));
  EXPECT_EQ(reader.Find("v", 1), nullptr);
}

TEST(JsonSchemaArguments, Errors) {
  EXPECT_EQ(ArgumentReader(R"({"type":"string"})").error(), "unsatisfiable_schema");
  EXPECT_EQ(ArgumentReader(R"({"properties":{"a":false},"required":["a"]})").error(),
            "unsatisfiable_schema");
  EXPECT_EQ(ArgumentReader(R"({"properties":{"a":{},"b":{}},"minProperties":1})").error(),
            "unsupported_schema");
  std::string branches;
  for (int i = 0; i < 17; ++i) {
    branches +=
        (i == 0 ? "" : ",") + std::string(R"({"required":["p)") + std::to_string(i) + "\"]}";
  }
  EXPECT_EQ(ArgumentReader(R"({"anyOf":[)" + branches + "]}").error(), "unsupported_schema");
  ArgumentReader relaxed(R"({"anyOf":[)" + branches + "]}", {});
  EXPECT_EQ(relaxed.forms().size(), 1u);
  EXPECT_EQ(relaxed.relaxed(), std::vector<std::string>{"/anyOf"});
}

}  // namespace
}  // namespace fathom::constraint
