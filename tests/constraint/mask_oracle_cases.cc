#include "tests/constraint/mask_oracle_cases.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "constraint/dsml.h"
#include "constraint/readers/gbnf.h"
#include "constraint/readers/regex.h"
#include "constraint/schema/json_schema.h"
#include "json/json_value.h"

namespace fathom::testing {
namespace {

constexpr auto kSchema = MaskCaseKind::kSchema;
constexpr auto kRegex = MaskCaseKind::kRegex;
constexpr auto kGbnf = MaskCaseKind::kGbnf;
constexpr auto kTools = MaskCaseKind::kTools;

constexpr MaskCase kMaskCases[] = {
    {"anything", kSchema, "true"},
    {"types", kSchema, R"({"type": ["string", "integer", "null", "boolean"]})"},
    {"number", kSchema, R"({"type": "number"})"},
    {"integer_range", kSchema, R"({"type": "integer", "minimum": -12, "maximum": 4711})"},
    {"number_range", kSchema, R"({"type": "number", "exclusiveMinimum": 0.25, "maximum": 99.5})"},
    {"multiples", kSchema, R"({"type": "number", "multipleOf": 0.05, "minimum": 0})"},
    {"enum", kSchema, R"({"enum": ["red", "reddish", "\"", "größe", 1, 1.5, null, ["a"], {}]})"},
    {"strings", kSchema,
     R"({"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 12}})"},
    {"long_string", kSchema, R"({"type": "string", "minLength": 100, "maxLength": 1000000})"},
    {"pattern", kSchema, R"({"type": "string", "pattern": "^[a-z]+(-[a-z0-9]{2,8})*$"})"},
    {"search", kSchema, R"({"type": "string", "pattern": "ab|[0-9]{3}"})"},
    {"letters", kSchema, R"({"type": "string", "pattern": "^\\p{L}{3,}$", "maxLength": 40})"},
    {"lookahead", kSchema, R"({"type": "string", "pattern": "^(?!foo)[a-z ]{4,20}$"})"},
    {"date_time", kSchema, R"({"type": "string", "format": "date-time"})"},
    {"email", kSchema, R"({"type": "string", "format": "email"})"},
    {"uri", kSchema, R"({"type": "string", "format": "uri"})"},
    {"ipv6", kSchema, R"({"anyOf": [{"type": "string", "format": "ipv6"},
                                    {"type": "string", "format": "uuid"}]})"},
    {"person", kSchema, R"({"type": "object", "additionalProperties": false,
        "required": ["name", "age"],
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
                       "mail": {"type": "string", "format": "email"},
                       "tags": {"type": "array", "items": {"enum": ["old", "wise"]}}}})"},
    {"open_object", kSchema, R"({"type": "object", "required": ["z"],
        "properties": {"a": {"type": "boolean"}, "b": {}}})"},
    {"pattern_names", kSchema, R"({"type": "object", "additionalProperties": false,
        "patternProperties": {"^x-": {"type": "string"}, "[0-9]$": {"type": "integer"}}})"},
    {"named", kSchema, R"({"type": "object", "propertyNames": {"maxLength": 4},
        "additionalProperties": {"type": "null"}, "minProperties": 1, "maxProperties": 3})"},
    {"tuple", kSchema, R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}],
        "items": {"type": "boolean"}, "minItems": 1, "maxItems": 5})"},
    {"unique", kSchema, R"({"type": "array", "uniqueItems": true, "minItems": 2,
        "items": {"enum": ["a", "ab", "abc", "b", 1, 10]}})"},
    {"unique_texts", kSchema,
     R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 6}})"},
    {"contains", kSchema, R"({"type": "array", "contains": {"const": 7}, "maxContains": 2,
        "items": {"type": "integer", "minimum": 0, "maximum": 20}})"},
    {"tree", kSchema, R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
        "properties": {"value": {"type": "string"},
                       "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["value"], "additionalProperties": false}}})"},
    {"one_of", kSchema, R"({"oneOf": [
        {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
         "required": ["kind", "r"], "additionalProperties": false},
        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
         "required": ["kind", "side"], "additionalProperties": false}]})"},
    {"all_of", kSchema, R"({"allOf": [{"type": "string", "pattern": "^a"},
        {"pattern": "z$"}, {"minLength": 3}, {"maxLength": 30}]})"},
    {"not", kSchema, R"({"type": "string", "not": {"enum": ["no", "none", "null"]}})"},
    {"if_then", kSchema, R"({"type": "object", "additionalProperties": false,
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9},
                       "b": {"type": "string"}},
        "required": ["a"],
        "if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}})"},
    {"compact", kSchema, R"({"x-fathom": {"whitespace": "compact"}, "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "number"}}}})"},

    {"word", kRegex, "[A-Z][a-z]{2,40}( [a-z]+){0,5}[.!?]"},
    {"address", kRegex, "[a-z0-9._]+@([a-z0-9]+\\.)+[a-z]{2,4}"},
    {"any_to_end", kRegex, "(.|\\n)*END"},
    {"digits", kRegex, "(0|[1-9][0-9]{0,2}(,[0-9]{3})*)(\\.[0-9]{2})?"},
    {"cjk", kRegex, "[一-龥]{2,8}(、[一-龥]{2,8})*。"},

    {"json", kGbnf, R"g(root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? ws "}"
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?
ws ::= [ \n]{0,2})g"},
    {"sum", kGbnf,
     "root ::= sum\nsum ::= sum \"+\" sum | sum \"*\" sum | [0-9]+ | \"(\" sum \")\""},
    {"ambiguous", kGbnf, R"(root ::= root root | "a" | "ab" | "the" | " ")"},
    {"left", kGbnf,
     "root ::= list\nlist ::= list \", \" item | item\nitem ::= [a-z]+ | \"'\" [^']* \"'\""},
    {"nullable", kGbnf, "root ::= a a a \"!\"\na ::= b? [x-z]*\nb ::= a \"-\" | \"\""},
    {"tokens", kGbnf, "root ::= (<[300]> | !<[301]> \"x\")* <[302]> [a-z]*"},
    {"lines", kGbnf, R"(root ::= ("- " [^\n]+ "\n"){1,20} "\n" "Summary: " .+)"},

    {"markup", kTools, R"([["get", {"properties": {"a": {}, "ab": {}, "b": {}}}, false],
                           ["get_all", {"properties": {}}, false]])"},
    {"any_names", kTools, R"([["f", {}, false]])"},
    {"strict", kTools, R"([["f", {"properties": {"s": {"type": "string", "maxLength": 9},
                                         "n": {"type": "integer", "minimum": 5},
                                         "u": {"type": ["string", "boolean"]},
                                         "l": {"type": "array", "items": {"enum": ["x", 1]}}},
                          "required": ["n", "u"]}, true],
                   ["g", {"properties": {"a": {"pattern": "^[ab]{2}$", "type": "string"}},
                          "required": ["a"]}, true]])"},
    {"forms", kTools, R"([["f", {"anyOf": [
        {"properties": {"k": {"const": "a"}, "x": {"type": "null"}}, "required": ["k", "x"]},
        {"properties": {"k": {"const": "b"}}, "required": ["k"]}]}, true]])"},
    {"others", kTools, R"([["f", {"properties": {"a": {"type": "boolean"}}, "required": ["a"],
                          "additionalProperties": {"type": "integer"}}, true]])"},
    {"custom", kTools,
     R"([["patch", null, false, "(\\+[a-z <]*\\n)+"], ["run", null, false, ""]])"},
    {"mixed", kTools, R"([["search", {"properties": {"query": {"type": "string"},
                                            "limit": {"type": "integer"}}}, false],
                   ["send", {"properties": {"to": {"type": "string", "format": "email"},
                                            "body": {"type": "string", "maxLength": 200}},
                          "required": ["to"]}, true]])"},
};
static_assert(std::size(kMaskCases) == 50);

ToolSchema ReadTool(const JsonValue& json) {
  const auto parts = json.items();
  ToolSchema tool = {
      .name = std::string(parts[0].text()), .parameters = parts[1], .strict = parts[2].boolean()};
  if (parts.size() > 3) {
    tool.raw_parameter = "input";
    tool.raw_regex = parts[3].text();
  }
  return tool;
}

ConstraintResult<ExpressionId> CompileTools(Grammar& grammar, const JsonValue& list, Token dsml) {
  std::vector<ToolSchema> tools;
  for (const JsonValue& tool : list.items()) tools.push_back(ReadTool(tool));
  std::vector<std::string> relaxed;
  return DsmlBlock(grammar, tools, {.dsml = dsml, .dsml_text = "｜DSML｜"}, relaxed);
}

ConstraintResult<ExpressionId> CompileText(Grammar& grammar, const MaskCase& mask_case,
                                           const ConstraintVocabulary& vocabulary) {
  if (mask_case.kind == kRegex) {
    return ParseRegex(grammar.pool, mask_case.text, {.anchored = true});
  }
  if (mask_case.kind == kGbnf) {
    const ConstraintResult<void> parsed =
        ParseGbnf(grammar, mask_case.text,
                  {.find_token = [&](std::string_view text) { return vocabulary.Find(text); },
                   .vocab_size = vocabulary.vocab_size()});
    if (!parsed) return tl::unexpected(parsed.error());
    return grammar.start;
  }
  const Result<JsonValue> json = ParseJson(mask_case.text);
  EXPECT_TRUE(json) << mask_case.text;
  if (!json) return grammar.pool.Nothing();
  if (mask_case.kind == kTools) {
    return CompileTools(grammar, *json, *vocabulary.meaningful().dsml);
  }
  return JsonSchemaCompiler(grammar, {.strict = true}).Value(*json);
}

}  // namespace

std::span<const MaskCase> MaskCases() { return kMaskCases; }

std::unique_ptr<Grammar> CompileMaskCase(const MaskCase& mask_case,
                                         const ConstraintVocabulary& vocabulary) {
  auto grammar = std::make_unique<Grammar>();
  const ConstraintResult<ExpressionId> start = CompileText(*grammar, mask_case, vocabulary);
  EXPECT_TRUE(start) << mask_case.name << ": " << (start ? "" : start.error().message);
  if (start) grammar->start = *start;
  return grammar;
}

}  // namespace fathom::testing
