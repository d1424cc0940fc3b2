#include "tests/engine/compiled_constraints.h"

#include <string_view>

#include "base/check.h"
#include "json/json_value.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {
namespace {

using Kind = ContentConstraint::Kind;

constexpr Token kEnd = 1;

constexpr std::string_view kSchemas[] = {
    R"({"type": "object", "required": ["name", "age"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "maxLength": 20},
                       "age": {"type": "integer", "minimum": 0, "maximum": 120},
                       "tags": {"type": "array", "items": {"enum": ["old", "wise"]}}}})",
    R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "maxItems": 3,
        "items": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "boolean"}]}}}})",
    R"({"type": ["number", "null", "string"]})"};

JsonValue Parsed(std::string_view text) {
  Result<JsonValue> value = ParseJson(text);
  Check(value.has_value(), "a schema that is JSON");
  return *std::move(value);
}

}  // namespace

CompiledConstraints::CompiledConstraints(std::int64_t vocab_size) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(ProjectPath("models/fairy"));
  Check(tokenizer.has_value(), "the tokenizer of the embedded model");
  const Token end[] = {kEnd};
  compiler_ = std::make_unique<ConstraintCompiler>(
      std::make_shared<ConstraintVocabulary>(*tokenizer, vocab_size, end));
  for (const std::string_view schema : kSchemas) {
    specs_.push_back({.content = {.kind = Kind::kJsonSchema, .schema = Parsed(schema)}});
  }
  specs_.push_back({.content = {.kind = Kind::kJsonObject}});
  specs_.push_back(
      {.content = {.kind = Kind::kRegex, .text = "(The|A) [a-z]{3,12}( [a-z]+)*[.!]"}});
  specs_.push_back({.content = {.kind = Kind::kChoice, .choices = {"yes", "yesterday", "no"}}});
  specs_.push_back(
      {.content = {.kind = Kind::kGbnf,
                   .text = "root ::= sum\nsum ::= sum \"+\" sum | [0-9]+ | \"(\" sum \")\"\n"}});
  for (const ToolConstraint::Kind kind :
       {ToolConstraint::Kind::kAuto, ToolConstraint::Kind::kRequired}) {
    specs_.push_back(
        {.tools = {
             .kind = kind,
             .tools = {{.name = "look", .parameters = Parsed(kSchemas[0]), .strict = true}}}});
  }
}

std::shared_ptr<const Constraint> CompiledConstraints::Choose(std::uint64_t number) {
  ConstraintSpec spec = specs_[number % specs_.size()];
  spec.in_reasoning = number / specs_.size() % 3 == 0;
  const auto compiled = compiler_->Compile(spec);
  Check(compiled.has_value(), "a constraint that compiles");
  return *compiled;
}

}  // namespace fathom::testing
