#include "constraint/dsml.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/constraint/naive_recognizer.h"

namespace fathom::constraint {
namespace {

using testing::NaiveRecognizer;
using testing::TextSymbol;
using testing::TextSymbols;

constexpr Token kToken = 128825;
constexpr std::string_view kTokenText = "｜DSML｜";

// Readable markup becomes the format: <B …> and </B …> are tags with the token.
std::vector<TextSymbol> Markup(std::string_view text) {
  std::vector<TextSymbol> symbols;
  for (const TextSymbol& symbol : TextSymbols(text, "\x01", kToken)) symbols.push_back(symbol);
  return symbols;
}
std::string Parameter(std::string_view name, std::string_view is_string, std::string_view value) {
  return fmt::format("<\x01parameter name=\"{}\" string=\"{}\">{}</\x01parameter>", name, is_string,
                     value);
}
std::string Call(std::string_view tool, const std::vector<std::string>& parameters) {
  return fmt::format("<\x01invoke name=\"{}\">\n{}\n</\x01invoke>", tool,
                     fmt::join(parameters, "\n"));
}
std::string Block(const std::vector<std::string>& calls) {
  return fmt::format("<\x01tool_calls>\n{}\n</\x01tool_calls>", fmt::join(calls, "\n"));
}

JsonValue ToolJson(std::string_view text) {
  const Result<JsonValue> value = ParseJson(text);
  EXPECT_TRUE(value) << text;
  return value.value_or(JsonValue());
}

// A grammar of calls and its oracle.
struct Calls {
  explicit Calls(std::vector<ToolSchema> tools, bool parallel = true) {
    const ConstraintResult<ExpressionId> block = DsmlBlock(
        *grammar, tools,
        {.dsml = kToken, .dsml_text = std::string(kTokenText), .parallel = parallel}, relaxed);
    EXPECT_TRUE(block) << (block ? "" : block.error().message);
    if (block) grammar->start = *block;
  }
  bool Accept(const std::string& text) { return NaiveRecognizer(*grammar).Accepts(Markup(text)); }
  // One call of the tool f.
  bool AcceptCall(const std::vector<std::string>& parameters) {
    return Accept(Block({Call("f", parameters)}));
  }

  std::unique_ptr<Grammar> grammar = std::make_unique<Grammar>();
  std::vector<std::string> relaxed{};
};

ConstraintError DsmlError(const std::vector<ToolSchema>& tools) {
  Grammar grammar;
  std::vector<std::string> relaxed;
  const ConstraintResult<ExpressionId> block =
      DsmlBlock(grammar, tools, {.dsml = kToken, .dsml_text = std::string(kTokenText)}, relaxed);
  EXPECT_FALSE(block);
  return block ? ConstraintError{} : block.error();
}

ToolSchema Tool(std::string_view parameters, bool strict = false) {
  return {.name = "f", .parameters = ToolJson(parameters), .strict = strict};
}

constexpr std::string_view kTwoParameters =
    R"({"type": "object", "required": ["s"],
        "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}})";

TEST(DsmlBlock, LettersOfTheFormat) {
  Calls calls({Tool(kTwoParameters), {.name = "g"}});
  EXPECT_TRUE(calls.Accept(Block({Call("f", {Parameter("s", "true", "x")})})));
  EXPECT_TRUE(calls.Accept(Block({Call("g", {})})));
  EXPECT_TRUE(calls.Accept(Block({Call("g", {}), Call("f", {}), Call("g", {})})));
  EXPECT_FALSE(calls.Accept(Block({})));
  EXPECT_FALSE(calls.Accept(Block({Call("h", {})})));
  EXPECT_FALSE(calls.Accept("\n\n" + Block({Call("g", {})})));
  EXPECT_FALSE(calls.Accept(Block({Call("g", {})}) + "\n"));
  // The token in its place, not its text.
  std::string spelled = Block({Call("g", {})});
  for (std::size_t at = 0; (at = spelled.find('\x01')) != std::string::npos;) {
    spelled.replace(at, 1, kTokenText);
    EXPECT_FALSE(calls.Accept(spelled));
  }
}

TEST(DsmlBlock, OneCallIfCallsAreNotParallel) {
  Calls calls(std::vector<ToolSchema>{{.name = "g"}}, false);
  EXPECT_TRUE(calls.Accept(Block({Call("g", {})})));
  EXPECT_FALSE(calls.Accept(Block({Call("g", {}), Call("g", {})})));
}

TEST(DsmlBlock, ParametersInAnyOrderOnceEach) {
  Calls calls({Tool(R"({"properties": {"a": {}, "ab": {}, "c": {}}})")});
  const std::string a = Parameter("a", "true", "1");
  const std::string ab = Parameter("ab", "false", "2");
  const std::string c = Parameter("c", "true", "");
  EXPECT_TRUE(calls.AcceptCall({}));
  EXPECT_TRUE(calls.AcceptCall({a, ab, c}));
  EXPECT_TRUE(calls.AcceptCall({c, a, ab}));
  EXPECT_TRUE(calls.AcceptCall({ab, c}));
  EXPECT_FALSE(calls.AcceptCall({a, a}));
  EXPECT_FALSE(calls.AcceptCall({a, ab, c, a}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("d", "true", "1")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("", "true", "1")}));
  EXPECT_FALSE(calls.AcceptCall({a, ""}));
}

TEST(DsmlBlock, MarkupLeavesTypesAndRequiredFree) {
  Calls calls({Tool(kTwoParameters)});
  EXPECT_TRUE(calls.AcceptCall({}));
  EXPECT_TRUE(calls.AcceptCall({Parameter("n", "true", "no number, \" \\ 'or <b>"),
                                Parameter("s", "false", R"({"a": [1, null, "\u00e9"]})")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("n", "false", "{oops")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("n", "false", "")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("n", "maybe", "1")}));
  EXPECT_TRUE(calls.relaxed.empty());
}

TEST(DsmlBlock, ForcedCallsHaveTheirRequiredParameters) {
  const auto accepts = [](std::string_view schema, const std::vector<std::string>& parameters) {
    ToolSchema tool = Tool(schema);
    tool.has_required = true;
    return Calls({tool}).AcceptCall(parameters);
  };
  const std::string a = Parameter("a", "true", "x");
  const std::string b = Parameter("b", "false", "[1]");
  const std::string c = Parameter("c", "true", "free");
  constexpr std::string_view kBoth =
      R"({"properties": {"a": {"type": "string"}, "b": {"x-unknown": 1}, "c": {}},
          "required": ["a", "b"], "x-other": {}})";
  EXPECT_FALSE(accepts(kBoth, {}));
  EXPECT_FALSE(accepts(kBoth, {a}));
  EXPECT_FALSE(accepts(kBoth, {b, c}));
  EXPECT_TRUE(accepts(kBoth, {a, b}));
  EXPECT_TRUE(accepts(kBoth, {c, b, a}));
  // By reference and in parts, but not of one alternative.
  constexpr std::string_view kParts =
      R"({"$ref": "#/$defs/t", "$defs": {"t": {"allOf": [{"required": ["a"]}],
          "anyOf": [{"required": ["b"]}, {"required": ["c"]}], "properties": {"a": {}}}}})";
  EXPECT_FALSE(accepts(kParts, {b}));
  EXPECT_TRUE(accepts(kParts, {a}));
  // A name that markup cannot hold, and nothing that is a list of names.
  EXPECT_TRUE(accepts(R"({"properties": {"a": {}}, "required": ["q\"", 5]})", {a}));
  EXPECT_TRUE(accepts(R"({"properties": {"a": {}}, "required": "a"})", {}));
}

TEST(DsmlBlock, StrictToolsBindValuesAndRequired) {
  Calls calls({Tool(kTwoParameters, true)});
  const std::string s = Parameter("s", "true", "any text");
  const std::string n = Parameter("n", "false", "12");
  EXPECT_TRUE(calls.AcceptCall({s}));
  EXPECT_TRUE(calls.AcceptCall({s, n}));
  EXPECT_TRUE(calls.AcceptCall({n, s}));
  EXPECT_FALSE(calls.AcceptCall({}));
  EXPECT_FALSE(calls.AcceptCall({n}));
  EXPECT_FALSE(calls.AcceptCall({s, Parameter("n", "false", "1.5")}));
  EXPECT_FALSE(calls.AcceptCall({s, Parameter("n", "true", "12")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("s", "false", "\"x\"")}));
  EXPECT_FALSE(calls.AcceptCall({s, Parameter("other", "true", "x")}));
}

TEST(DsmlBlock, UnionsOfTypesOfferBothForms) {
  Calls calls(
      {Tool(R"({"properties": {"v": {"type": ["string", "null"], "maxLength": 2}}})", true)});
  EXPECT_TRUE(calls.AcceptCall({Parameter("v", "true", "é\"")}));
  EXPECT_TRUE(calls.AcceptCall({Parameter("v", "false", "null")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("v", "true", "abc")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("v", "false", "\"ab\"")}));
  EXPECT_FALSE(calls.AcceptCall({Parameter("v", "false", "1")}));
}

TEST(DsmlBlock, AlternativesOfObjects) {
  Calls calls({Tool(R"({"anyOf": [
      {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
      {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})",
                    true)});
  const std::string a = Parameter("a", "true", "x");
  const std::string b = Parameter("b", "false", "true");
  EXPECT_TRUE(calls.AcceptCall({a}));
  EXPECT_TRUE(calls.AcceptCall({b}));
  EXPECT_FALSE(calls.AcceptCall({a, b}));
  EXPECT_FALSE(calls.AcceptCall({}));
}

// llama.cpp issue 28612: a closer with a misspelt name became part of the value.
TEST(DsmlBlock, ValuesHoldNoTags) {
  for (const bool strict : {false, true}) {
    Calls calls({Tool(R"({"properties": {"v": {"type": ["string", "array"]}}})", strict)});
    const auto accepts = [&](std::string_view is_string, std::string_view value) {
      return calls.AcceptCall({Parameter("v", is_string, value)});
    };
    EXPECT_TRUE(accepts("true", "</｜DSM, ｜DSML｜, |DSML|invoke>, < DSML>, a < b </b> <<//"));
    EXPECT_FALSE(accepts("true", "<｜DSML｜"));
    EXPECT_FALSE(accepts("true", "x </｜DSML｜parametre> y"));
    EXPECT_FALSE(accepts("true", "</\x01parametre>"));
    EXPECT_FALSE(accepts("true", "\x01"));
    EXPECT_TRUE(accepts("false", R"(["｜DSML｜", "<｜DSM", "\u003c｜DSML｜"])"));
    EXPECT_FALSE(accepts("false", R"(["<｜DSML｜"])"));
    EXPECT_FALSE(accepts("false", R"([{"</｜DSML｜": 1}])"));
    EXPECT_FALSE(accepts("false", "[\"<\x01\"]"));
    // The parser of answers takes these for tags, too.
    for (const std::string_view bracket : {"<", "</"}) {
      for (const std::string_view bars : {"", "|", "||", "｜", "｜｜", "｜|", "|｜"}) {
        const std::string tag = fmt::format("{}{}DSML{} parameter>", bracket, bars, bars);
        EXPECT_FALSE(accepts("true", "a " + tag)) << tag;
        EXPECT_FALSE(accepts("false", "[\"a " + tag + "\"]")) << tag;
      }
    }
  }
}

TEST(DsmlBlock, RawTextIsUtf8) {
  Calls calls({Tool(R"({"properties": {"v": {}}})")});
  const auto accepts = [&](std::string_view value) {
    return calls.AcceptCall({Parameter("v", "true", value)});
  };
  EXPECT_TRUE(accepts("\n\t\x7F é € \U0001F600"));
  EXPECT_FALSE(accepts("\xC3"));
  EXPECT_FALSE(accepts("\xC0\x80"));
  EXPECT_FALSE(accepts("\xED\xA0\xBD"));
}

TEST(DsmlBlock, AnyNamesWhereNoneAreDeclared) {
  Calls calls({Tool(R"({"type": "object"})")});
  const auto name = [](std::string_view text) { return Parameter(text, "true", "1"); };
  EXPECT_TRUE(calls.AcceptCall({}));
  EXPECT_TRUE(calls.AcceptCall({name("a"), name("größe x>"), name("ab")}));
  EXPECT_FALSE(calls.AcceptCall({name("a"), name("b"), name("a")}));
  EXPECT_FALSE(calls.AcceptCall({name("")}));
  EXPECT_FALSE(calls.AcceptCall({name("a<b")}));
  EXPECT_FALSE(calls.AcceptCall({name("a\tb")}));
  std::string long_name;
  for (int i = 0; i < 128; ++i) long_name += "é";
  EXPECT_TRUE(calls.AcceptCall({name(long_name)}));
  EXPECT_FALSE(calls.AcceptCall({name(long_name + "x")}));
}

TEST(DsmlBlock, OtherNamesBesideDeclaredOnes) {
  Calls calls({Tool(R"({"properties": {"a": {}}, "additionalProperties": true})")});
  const auto name = [](std::string_view text) { return Parameter(text, "false", "1"); };
  EXPECT_TRUE(calls.AcceptCall({name("b"), name("a"), name("aa")}));
  EXPECT_FALSE(calls.AcceptCall({name("a"), name("a")}));
  EXPECT_FALSE(calls.AcceptCall({name("b"), name("b")}));
}

TEST(DsmlBlock, ToolsWithoutParameters) {
  for (const std::string_view schema :
       {"null", R"({"type": "object", "properties": {}})", R"({"additionalProperties": false})"}) {
    for (const bool strict : {false, true}) {
      Calls calls({Tool(schema, strict)});
      EXPECT_TRUE(calls.AcceptCall({})) << schema;
      EXPECT_FALSE(calls.AcceptCall({Parameter("a", "true", "x")})) << schema;
      EXPECT_FALSE(calls.Accept(Block({"<\x01invoke name=\"f\">\n</\x01invoke>"}))) << schema;
    }
  }
}

TEST(DsmlBlock, CustomToolsTakeOneText) {
  Calls any(std::vector<ToolSchema>{{.name = "f", .raw_parameter = "input"}});
  EXPECT_TRUE(any.AcceptCall({Parameter("input", "true", "*** Begin\n\"x\"")}));
  EXPECT_TRUE(any.AcceptCall({Parameter("input", "true", "")}));
  EXPECT_FALSE(any.AcceptCall({}));
  EXPECT_FALSE(any.AcceptCall({Parameter("input", "false", "1")}));
  EXPECT_FALSE(any.AcceptCall({Parameter("text", "true", "x")}));
  Calls regex(std::vector<ToolSchema>{
      {.name = "f", .raw_parameter = "input", .raw_regex = "[a-z<]+(/x)?"}});
  EXPECT_TRUE(regex.AcceptCall({Parameter("input", "true", "ab<<c/x")}));
  EXPECT_FALSE(regex.AcceptCall({Parameter("input", "true", "ab/")}));
  EXPECT_FALSE(regex.AcceptCall({Parameter("input", "true", "")}));
  Calls dots(std::vector<ToolSchema>{{.name = "f", .raw_parameter = "input", .raw_regex = ".*"}});
  EXPECT_FALSE(dots.AcceptCall({Parameter("input", "true", "<｜DSML｜")}));
}

TEST(DsmlBlock, OthersMayNotHaveTheNamesOfImpossibleParameters) {
  Calls calls({Tool(R"({"properties": {"a": false, "b": {"type": "integer"}},
                        "additionalProperties": {"type": "integer"}})",
                    true)});
  const auto name = [](std::string_view text) { return Parameter(text, "false", "1"); };
  EXPECT_TRUE(calls.AcceptCall({name("c"), name("b"), name("aa")}));
  EXPECT_FALSE(calls.AcceptCall({name("a")}));
}

// Names that are more than marks keep their rules by another way.
TEST(DsmlBlock, ThousandsOfNames) {
  JsonValue schema = JsonValue::Object();
  JsonValue properties = JsonValue::Object();
  for (int i = 0; i < 1500; ++i) properties.Add(fmt::format("p{}", i), JsonValue::Object());
  schema.Add("properties", std::move(properties));
  Calls calls(std::vector<ToolSchema>{{.name = "f", .parameters = schema}});
  const auto name = [](std::string_view text) { return Parameter(text, "false", "1"); };
  EXPECT_TRUE(calls.AcceptCall({}));
  EXPECT_TRUE(calls.AcceptCall({name("p1499"), name("p1"), name("p14")}));
  EXPECT_FALSE(calls.AcceptCall({name("p1500")}));
  EXPECT_FALSE(calls.AcceptCall({name("p1"), name("p2"), name("p1")}));
  schema.Add("additionalProperties", true);
  Calls open(std::vector<ToolSchema>{{.name = "f", .parameters = schema}});
  EXPECT_TRUE(open.AcceptCall({name("p1500"), name("p1")}));
  EXPECT_FALSE(open.AcceptCall({name("p1"), name("p1")}));
}

TEST(DsmlBlock, RelaxedKeywordsNameTheTool) {
  const std::string_view schema = R"({"properties": {"a": {"type": "string", "format": "color"}}})";
  Calls calls({Tool(schema, true), {.name = "g"}, Tool(schema), Tool(schema, true)});
  EXPECT_THAT(calls.relaxed, ::testing::ElementsAre("tools[0]/properties/a/format",
                                                    "tools[3]/properties/a/format"));
}

// Tools share the rules of what their schemas have in common.
TEST(DsmlBlock, FortyToolsStaySmall) {
  std::vector<ToolSchema> tools;
  for (int i = 0; i < 40; ++i) {
    tools.push_back(Tool(
        R"({"properties": {"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "integer"}}}})",
        true));
    tools.back().name = fmt::format("tool_{}", i);
  }
  Calls calls(std::move(tools));
  EXPECT_LT(calls.grammar->rules.size(), 60U);
  EXPECT_LT(calls.grammar->pool.n_expressions(), 3'000U);
}

TEST(DsmlBlock, ErrorsNameTheTool) {
  const ConstraintError none = DsmlError({});
  EXPECT_EQ(none.code, ConstraintErrorCode::kUnsatisfiableSchema);
  const ConstraintError name = DsmlError({{.name = "f"}, {.name = "a\"b"}, {.name = ""}});
  EXPECT_EQ(name.code, ConstraintErrorCode::kInvalidSchema);
  ASSERT_EQ(name.issues.size(), 2U);
  EXPECT_EQ(name.issues[0].pointer, "1");
  EXPECT_EQ(name.issues[0].keyword, "name");
  EXPECT_EQ(name.issues[1].pointer, "2");
  const ConstraintError regex =
      DsmlError({{.name = "f", .raw_parameter = "input", .raw_regex = "(a"}});
  EXPECT_EQ(regex.code, ConstraintErrorCode::kInvalidSchema);
  const ConstraintError nothing =
      DsmlError({{.name = "f", .raw_parameter = "input", .raw_regex = "a*<｜DSML｜[^x]*"}});
  EXPECT_EQ(nothing.code, ConstraintErrorCode::kUnsatisfiableSchema);
  EXPECT_EQ(nothing.issues[0].pointer, "0");
  const ConstraintError quote = DsmlError({Tool(R"({"properties": {"a/\"": {}}})", true)});
  EXPECT_EQ(quote.code, ConstraintErrorCode::kUnsupportedSchema);
  ASSERT_EQ(quote.issues.size(), 1U);
  EXPECT_EQ(quote.issues[0].pointer, "0/properties/a~1\"");
  const ConstraintError schema =
      DsmlError({{.name = "f"}, Tool(R"({"properties": {"x": {"type": "strnig"}}})", true)});
  ASSERT_FALSE(schema.issues.empty());
  EXPECT_THAT(schema.issues[0].pointer, ::testing::StartsWith("1/properties/x"));
}

}  // namespace
}  // namespace fathom::constraint
