#include "cli/answer_form.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "base/utf8.h"
#include "cli/terminal/output.h"
#include "json/json_value.h"

namespace fathom::cli {
namespace {

// The limit of a schema and of a grammar (docs/spec/constrained.md 1.2), with room for blanks.
constexpr std::size_t kMostFormBytes = std::size_t{4} << 20;

ErrorCode ToErrorCode(ConstraintErrorCode code) {
  return code == ConstraintErrorCode::kUnsupportedSchema ? ErrorCode::kUnsupported
                                                         : ErrorCode::kInvalidArgument;
}

}  // namespace

Result<ContentForm> ReadAnswerForm(const FormOptions& options) {
  ContentForm form;
  ContentConstraint& content = form.constraint;
  if (options.regex) {
    form.field = form.path = "--regex";
    content.kind = ContentConstraint::Kind::kRegex;
    content.text = *options.regex;
    return form;
  }
  const bool is_schema = options.schema.has_value();
  if (!is_schema && !options.grammar) return form;
  const std::string& path = is_schema ? *options.schema : *options.grammar;
  const char* const option = is_schema ? "--schema" : "--grammar";
  form.field = form.path = fmt::format("{}: {}", option, path);
  Result<std::string> text = ReadInput(path, kMostFormBytes);
  if (!text) return MakeError(text.error().code, "{}: {}", option, text.error().message);
  if (!is_schema) {
    content.kind = ContentConstraint::Kind::kGbnf;
    content.text = *std::move(text);
    return form;
  }
  Result<JsonValue> schema = ParseJson(*text);
  if (!schema) {
    return MakeError(schema.error().code, "{}: {}", form.field, schema.error().message);
  }
  content.kind = ContentConstraint::Kind::kJsonSchema;
  content.schema = *std::move(schema);
  return form;
}

Result<std::shared_ptr<const Constraint>> CompileAnswerForm(const ContentForm& form,
                                                            const CompileConstraint& compile,
                                                            bool in_reasoning) {
  if (form.constraint.kind == ContentConstraint::Kind::kNone) return nullptr;
  const ConstraintResult<std::shared_ptr<const Constraint>> compiled =
      compile({.content = form.constraint, .in_reasoning = in_reasoning}, Caller());
  if (compiled) return *compiled;
  const ConstraintError& error = compiled.error();
  return MakeError(ToErrorCode(error.code), "{}: {} ({})", form.field, error.message,
                   Name(error.code));
}

Result<std::shared_ptr<const Constraint>> CompileAnswerForm(const ContentForm& form,
                                                            const CompileConstraint& compile,
                                                            Log& log) {
  auto constraint = CompileAnswerForm(form, compile, false);
  if (constraint && *constraint != nullptr) {
    for (const std::string& pointer : (*constraint)->relaxed()) {
      log.Warn("{}: not enforced: {}", form.field, pointer);
    }
  }
  return constraint;
}

}  // namespace fathom::cli
