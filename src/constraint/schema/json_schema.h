// JSON Schema as grammar rules (docs/spec/constrained.md 2.1, 2.2).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "constraint/constraint_error.h"
#include "constraint/grammar/grammar.h"
#include "json/json_value.h"

namespace fathom::constraint {

enum class JsonWhitespace { kFlexible, kCompact, kPython, kAny };
enum class JsonKeyOrder { kSchema, kAny };

struct JsonLayout {
  JsonWhitespace whitespace = JsonWhitespace::kFlexible;
  JsonKeyOrder key_order = JsonKeyOrder::kSchema;
  friend bool operator==(const JsonLayout&, const JsonLayout&) = default;
};

struct JsonSchemaOptions {
  JsonLayout layout{};
  // Every assertion is enforced, or the schema is refused; off: what is not supported is relaxed.
  bool strict = false;
  // Objects with `properties` but without additionalProperties have no other properties; off: they
  // are open.
  bool closed_objects = false;
  // Texts that may not occur in the value, in any spelling of bytes (DSML tags within a value).
  std::vector<std::string> forbidden{};
  // Bounds of docs/spec/constrained.md 1.2.
  std::size_t max_bytes = 1 << 20;
  int max_depth = 128;
  std::size_t max_properties = 20'000;
  std::size_t max_enum_values = 50'000;
};

// A parameter of a tool, for calls in DSML (2.5): a value is either text or JSON.
struct ToolParameter {
  std::string name{};
  bool required = false;
  std::optional<ExpressionId> text{};  // unescaped, string="true"
  std::optional<ExpressionId> json{};  // string="false"
};
// One form of a tool's arguments: an object.
struct ToolArguments {
  std::vector<ToolParameter> parameters{};
  // Parameters with other names; nullopt: there are none.
  std::optional<ToolParameter> others{};
  // Names that are no parameters, and that `others` must not have either.
  std::vector<std::string> excluded{};
};

// Compiles any number of schemas into one grammar, which must outlive the compiler.
class JsonSchemaCompiler {
 public:
  JsonSchemaCompiler(Grammar& grammar, JsonSchemaOptions options);
  ~JsonSchemaCompiler();

  // The values that a schema (an object or a boolean) allows, without blanks around them. The
  // expression may call rules. $ref resolves within `schema`.
  ConstraintResult<ExpressionId> Value(const JsonValue& schema);
  // Any JSON object.
  ExpressionId AnyObject();
  // The arguments of a tool whose `parameters` are `schema`: at most 16 forms, one of which the
  // arguments must have. Values are complete: for RAW text the caller adds nothing.
  ConstraintResult<std::vector<ToolArguments>> Arguments(const JsonValue& schema);

  // Keywords that were not enforced, as JSON pointers, each once, at most 64.
  const std::vector<std::string>& relaxed() const;
  // Returns relaxed() and clears it: the keywords of the schemas since the last call.
  std::vector<std::string> TakeRelaxed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::constraint
