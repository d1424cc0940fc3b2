#include "constraint/schema/json_schema.h"

#include <memory>
#include <utility>

#include "constraint/lists.h"
#include "constraint/schema/grammar_writer.h"
#include "constraint/schema/schema_document.h"
#include "constraint/schema/schema_reader.h"
#include "constraint/schema/schema_report.h"
#include "constraint/schema/string_predicates.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxRelaxedKeywords = 64;

// The layout that the member x-fathom of a schema asks for.
JsonLayout ReadLayout(const JsonValue& schema, JsonLayout layout) {
  const JsonValue* own = schema.Find("x-fathom");
  if (own == nullptr) return layout;
  const std::string_view whitespace = own->FindText("whitespace");
  if (whitespace == "flex") layout.whitespace = JsonWhitespace::kFlexible;
  if (whitespace == "compact") layout.whitespace = JsonWhitespace::kCompact;
  if (whitespace == "python") layout.whitespace = JsonWhitespace::kPython;
  if (whitespace == "any") layout.whitespace = JsonWhitespace::kAny;
  const std::string_view key_order = own->FindText("key_order");
  if (key_order == "schema") layout.key_order = JsonKeyOrder::kSchema;
  if (key_order == "any") layout.key_order = JsonKeyOrder::kAny;
  return layout;
}

}  // namespace

struct JsonSchemaCompiler::Impl {
  Grammar& grammar;
  JsonSchemaOptions options;
  StringPredicates tests{grammar.meter};
  std::vector<std::unique_ptr<JsonRules>> rules{};  // one for each layout
  std::vector<std::string> relaxed{};

  JsonRules& RulesFor(JsonLayout layout) {
    for (const auto& known : rules) {
      if (known->options().layout == layout) return *known;
    }
    JsonSchemaOptions own = options;
    own.layout = layout;
    rules.push_back(std::make_unique<JsonRules>(grammar, own));
    return *rules.back();
  }

  // Adds the keywords that a schema relaxed.
  void AddRelaxed(const SchemaReport& report) {
    for (const std::string& pointer : report.relaxed()) {
      if (relaxed.size() >= kMaxRelaxedKeywords) return;
      AddNew(relaxed, pointer);
    }
  }

  // Calls write(reader, writer, report) for the schema, and returns its result unless it failed.
  template <class Write>
  auto Compile(const JsonValue& schema, Write write)
      -> ConstraintResult<decltype(write(std::declval<SchemaReader&>(),
                                         std::declval<GrammarWriter&>(),
                                         std::declval<SchemaReport&>()))> {
    SchemaReport report(options.strict, grammar.meter);
    SchemaDocument document(schema, options, report);
    report.NoteEnd("");
    if (report.failed()) return tl::unexpected<ConstraintError>(report.TakeError());
    SchemaReader reader(document, tests, report);
    GrammarWriter writer(RulesFor(ReadLayout(schema, options.layout)), reader, tests, report);
    auto result = write(reader, writer, report);
    writer.Finish();
    report.NoteEnd("");
    if (report.failed()) return tl::unexpected<ConstraintError>(report.TakeError());
    AddRelaxed(report);
    return result;
  }
};

JsonSchemaCompiler::JsonSchemaCompiler(Grammar& grammar, JsonSchemaOptions options)
    : impl_(new Impl{.grammar = grammar, .options = std::move(options)}) {}

JsonSchemaCompiler::~JsonSchemaCompiler() = default;

ConstraintResult<ExpressionId> JsonSchemaCompiler::Value(const JsonValue& schema) {
  return impl_->Compile(
      schema, [&](SchemaReader& reader, GrammarWriter& writer, SchemaReport& report) {
        const ExpressionId value = writer.Value(reader.FindGoal(SchemaDocument::kRoot));
        if (value == impl_->grammar.pool.Nothing() && !report.failed()) {
          report.Fail(ConstraintErrorCode::kUnsatisfiableSchema, "", "",
                      "expected a schema that some value satisfies");
        }
        return value;
      });
}

ExpressionId JsonSchemaCompiler::AnyObject() {
  const JsonValue schema = {{"type", "object"}};
  const ConstraintResult<ExpressionId> value = Value(schema);
  return value ? *value : impl_->grammar.pool.Nothing();
}

ConstraintResult<std::vector<ToolArguments>> JsonSchemaCompiler::Arguments(
    const JsonValue& schema) {
  const JsonValue any = JsonValue::Object();
  return impl_->Compile(schema.IsNull() ? any : schema,
                        [](SchemaReader& reader, GrammarWriter& writer, SchemaReport& report) {
                          return WriteToolArguments(reader, writer, report);
                        });
}

const std::vector<std::string>& JsonSchemaCompiler::relaxed() const { return impl_->relaxed; }

std::vector<std::string> JsonSchemaCompiler::TakeRelaxed() {
  return std::exchange(impl_->relaxed, {});
}

}  // namespace fathom::constraint
