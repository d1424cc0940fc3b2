// The arguments of a tool as forms of parameters.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "constraint/lists.h"
#include "constraint/schema/grammar_writer.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxForms = 16;

// Writes the parameters of one plan.
class FormWriter {
 public:
  FormWriter(GrammarWriter& writer, SchemaReport& report, ExpressionPool& pool)
      : writer_(writer), report_(report), pool_(pool) {}

  // nullopt if no arguments have this form.
  std::optional<ToolArguments> Write(const ObjectPlan& plan) {
    ToolArguments form;
    for (const PropertyShape& property : plan.properties) {
      ToolParameter parameter = Parameter(property.name, property.value);
      parameter.required = property.required;
      if (parameter.text || parameter.json) {
        form.parameters.push_back(std::move(parameter));
      } else if (property.required) {
        return std::nullopt;
      }
    }
    for (const std::string& name : plan.excluded) {
      const bool named = std::ranges::any_of(
          form.parameters, [&](const ToolParameter& known) { return known.name == name; });
      if (!named) form.excluded.push_back(name);
    }
    WriteOthers(plan, form);
    CheckCounts(plan, form);
    return form;
  }

 private:
  ToolParameter Parameter(std::string name, GoalId value) {
    ToolParameter parameter{.name = std::move(name), .text = writer_.RawStrings(value)};
    const ExpressionId json = writer_.ValueButStrings(value);
    if (json != pool_.Nothing()) parameter.json = json;
    return parameter;
  }

  void WriteOthers(const ObjectPlan& plan, ToolArguments& form) {
    std::vector<ExpressionId> texts;
    std::vector<ExpressionId> jsons;
    for (const KeyClass& keys : plan.others) {
      if (!keys.keys.IsFree()) {
        report_.Unsupported("", "patternProperties",
                            "expected parameters whose names have no pattern");
      }
      const ToolParameter parameter = Parameter("", keys.value);
      if (parameter.text) texts.push_back(*parameter.text);
      if (parameter.json) jsons.push_back(*parameter.json);
    }
    if (texts.empty() && jsons.empty()) return;
    form.others.emplace();
    if (!texts.empty()) form.others->text = pool_.Or(texts);
    if (!jsons.empty()) form.others->json = pool_.Or(jsons);
  }

  void CheckCounts(const ObjectPlan& plan, const ToolArguments& form) {
    const bool open = form.others.has_value();
    if (plan.minimum > CountRequired(form.parameters) || plan.minimum_others > 0 ||
        !plan.wanted.empty()) {
      report_.Unsupported("", "minProperties", "expected no bounds for the number of parameters");
    }
    if (plan.maximum != kNoMaximum && (open || plan.maximum < form.parameters.size())) {
      report_.Unsupported("", "maxProperties", "expected no bounds for the number of parameters");
    }
  }

  GrammarWriter& writer_;
  SchemaReport& report_;
  ExpressionPool& pool_;
};

}  // namespace

std::vector<ToolArguments> WriteToolArguments(SchemaReader& reader, GrammarWriter& writer,
                                              SchemaReport& report) {
  const GoalId root = reader.FindGoal(SchemaDocument::kRoot);
  const std::vector<ObjectShape> shapes = reader.Resolve(root).objects;
  std::vector<ObjectPlan> plans;
  for (const ObjectShape& shape : shapes) {
    if (report.failed()) return {};
    for (ObjectPlan& plan : writer.planner().PlanObject(shape, root)) {
      plans.push_back(std::move(plan));
    }
  }
  if (plans.size() > kMaxForms) {
    report.Unsupported(
        "", "anyOf",
        fmt::format("expected at most {} kinds of arguments, found {}", kMaxForms, plans.size()));
    ObjectPlan any;
    any.others.push_back({});
    plans = {any};
  }
  std::vector<ToolArguments> forms;
  FormWriter form_writer(writer, report, writer.pool());
  for (const ObjectPlan& plan : plans) {
    if (report.failed()) return {};
    if (auto form = form_writer.Write(plan)) forms.push_back(std::move(*form));
  }
  if (forms.empty() && !report.failed()) {
    report.Fail(ConstraintErrorCode::kUnsatisfiableSchema, "", "",
                "expected a schema that some object satisfies");
  }
  return forms;
}

}  // namespace fathom::constraint
