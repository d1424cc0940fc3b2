// GrammarWriter: value sets as expressions and rules of a grammar (docs/spec/constrained.md 2.1).
//
// Strings, numbers, arrays and objects are rules, so that all places with the same value share
// states; literals, keys and punctuation are written into the bodies. Equal bodies are one rule.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "constraint/grammar/grammar.h"
#include "constraint/schema/container_plans.h"
#include "constraint/schema/json_schema.h"
#include "constraint/schema/lazy_object.h"
#include "constraint/schema/schema_reader.h"
#include "constraint/schema/schema_report.h"
#include "constraint/schema/string_predicates.h"

namespace fathom::constraint {

// The parts that all schemas of a grammar share: layout and rules. Knows no schema.
class JsonRules {
 public:
  // canonical: every value has one text, without blanks.
  JsonRules(Grammar& grammar, const JsonSchemaOptions& options, bool canonical = false);

  Grammar& grammar() { return grammar_; }
  ExpressionPool& pool() { return grammar_.pool; }
  const JsonSchemaOptions& options() const { return options_; }
  bool is_canonical() const { return is_canonical_; }
  // The rules of canonical texts; this object if it is canonical itself.
  JsonRules& Canonical();
  // Spells texts of the compiler's StringPredicates as in JSON.
  TextWriter& json_writer() { return json_writer_; }

  // A call of the rule with this body; Nothing stays Nothing.
  ExpressionId Shared(std::string_view name, ExpressionId body,
                      std::optional<CodePointCount> count = std::nullopt,
                      LetterKind call = LetterKind::kCall);
  // The rule with this body, if there is one; else makes `rule`, if it is set, or a new one.
  RuleId MakeRule(std::string_view name, ExpressionId body, std::optional<CodePointCount> count,
                  std::optional<RuleId> rule = std::nullopt);
  // As MakeRule, for objects that are written later.
  RuleId ObjectsRule(std::string_view name, std::unique_ptr<ObjectsBody> objects,
                     std::optional<RuleId> rule);

  // --- Punctuation ---
  const JsonPunctuation& punctuation() const { return punctuation_; }

  // --- Texts ---
  // One string of any content, with its quotes.
  ExpressionId AnyString();
  // A text of the shape between quotes, or raw.
  ExpressionId String(StringPredicates& tests, const StringShape& shape);
  ExpressionId RawText(StringPredicates& tests, const StringShape& shape);
  ExpressionId Quoted(ExpressionId text);
  // The texts of the expression that contain nothing forbidden.
  ExpressionId WithoutForbidden(ExpressionId texts);
  bool IsForbidden(std::string_view text) const;

 private:
  Grammar& grammar_;
  const JsonSchemaOptions options_;
  const bool is_canonical_;
  std::unique_ptr<JsonRules> canonical_rules_{};
  TextWriter json_writer_;
  TextWriter raw_writer_;
  JsonPunctuation punctuation_{};
  std::optional<ExpressionId> any_character_{};  // a character of a string, in all spellings
  std::optional<ExpressionId> not_forbidden_{};
  std::optional<ExpressionId> raw_text_{};  // any text, not in quotes
  std::map<StringPredicate, ExpressionId> literals_;
  std::map<std::tuple<ExpressionId, std::uint32_t, std::uint32_t>, RuleId> rules_;
  std::map<std::vector<std::uint32_t>, RuleId> object_rules_;  // by ObjectsBody::Key

  ExpressionId AnyCharacter();
  // The literals of a shape that is one list of literals; else nullopt.
  std::optional<std::vector<std::string>> AllowedLiterals(const StringPredicates& tests,
                                                          const StringShape& shape) const;
};

// Writes the goals of one schema.
class GrammarWriter {
 public:
  GrammarWriter(JsonRules& rules, SchemaReader& reader, StringPredicates& tests,
                SchemaReport& report);

  // A value of the goal as JSON. Nothing() if there is none, or after an error.
  ExpressionId Value(GoalId goal);
  // As Value, without strings.
  ExpressionId ValueButStrings(GoalId goal);
  // The strings of a goal without quotes and escapes; nullopt if there is none.
  std::optional<ExpressionId> RawStrings(GoalId goal);
  ContainerPlanner& planner() { return planner_; }
  ExpressionPool& pool() { return rules_.pool(); }

  // Writes the containers that were postponed. Call after the last Value.
  void Finish();

 private:
  struct Containers {
    bool writing = false;
    std::optional<RuleId> rule{};         // made before its body
    std::optional<ExpressionId> value{};  // when done
  };

  ExpressionId Scalars(GoalId goal, bool strings);
  ExpressionId Literals(const ValueSet& values);
  ExpressionId ContainerValue(GoalId goal);
  // The arrays and objects of a goal as a call of a rule, or Nothing.
  ExpressionId WriteContainers(GoalId goal);
  // A value for `uniqueItems`: in its canonical text, as a rule of its own.
  ExpressionId UniqueValue(GoalId goal);
  GrammarWriter& Canonical();

  // Arrays (json_arrays.cc).
  ExpressionId Array(const ArrayPlan& plan);
  ExpressionId WriteItem(const ArrayPlan& plan, const std::vector<GoalId>& choices);
  ExpressionId PlainItems(const ArrayPlan& plan);
  ExpressionId CountedItems(const ArrayPlan& plan);

  // Objects (json_objects.cc).
  // nullopt: there is plainly no such object, or an error.
  std::optional<LazyObject> Object(const ObjectPlan& plan);
  ExpressionId OtherMember(const ObjectPlan& plan, const std::vector<KeyClass>& others);

  JsonRules& rules_;
  SchemaReader& reader_;
  StringPredicates& tests_;
  SchemaReport& report_;
  ContainerPlanner planner_;
  std::unique_ptr<GrammarWriter> canonical_{};  // the writer of items that must be unique
  std::unordered_map<GoalId, Containers> containers_;
  std::unordered_map<GoalId, ExpressionId> values_;
  std::vector<GoalId> postponed_;
  int depth_ = 0;
};

// The arguments of a tool as forms of parameters (docs/spec/constrained.md 2.5): the forms of the
// root schema. Fails with kUnsatisfiableSchema if no object satisfies it.
std::vector<ToolArguments> WriteToolArguments(SchemaReader& reader, GrammarWriter& writer,
                                              SchemaReport& report);

}  // namespace fathom::constraint
