// SchemaReader: the keywords of a schema as value sets (docs/spec/constrained.md 2.2).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraint/schema/json_schema.h"
#include "constraint/schema/schema_document.h"
#include "constraint/schema/schema_report.h"
#include "constraint/schema/value_algebra.h"
#include "constraint/schema/value_set.h"

namespace fathom::constraint {

class SchemaReader {
 public:
  // All must outlive the reader. After report.failed() the results mean nothing.
  SchemaReader(SchemaDocument& document, StringPredicates& tests, SchemaReport& report);

  GoalTable& goals() { return goals_; }
  ValueAlgebra& algebra() { return algebra_; }
  // The goal of a schema. A schema that only refers to another one has the goal of that one.
  GoalId FindGoal(PlaceId schema);
  // The pointer to the first schema of a goal.
  std::string Pointer(GoalId goal) const;

  // The values that satisfy all terms of the goal. The reference stays valid.
  const ValueSet& Resolve(GoalId goal);
  // True if the values depend on a schema that is still being read: Resolve would take this for a
  // reference without end.
  bool IsOpen(GoalId goal);
  // The values of a goal all of whose terms are lists of values (enum, const), and which are
  // therefore found without a look at other goals; nullptr for all other goals.
  const ValueSet* Listed(GoalId goal);
  // The goal of the terms that are lists of values; kAnyGoal if none is.
  GoalId ListedPart(GoalId goal);
  // Keeps the values of a goal.
  void Remember(GoalId goal, ValueSet values);

 private:
  // Appends the schemas that ReadSchema of a place reads for the same value.
  void AppendInPlace(PlaceId place, std::vector<PlaceId>& schemas);
  bool IsListed(const GoalTerm& term);
  // The schema that a chain of mere references leads to.
  PlaceId FollowReferences(PlaceId schema);
  // The first schema that was read with the same keywords, if all of them are scalars; else the
  // schema itself.
  PlaceId FirstOfEqual(PlaceId schema);

  struct Memory {
    bool reading = false;
    std::optional<ValueSet> values{};
  };

  const ValueSet& ReadSchema(PlaceId place);
  const ValueSet& ReadConstant(PlaceId place);
  // As ReadConstant, but keeps nothing: an enum has many values.
  ValueSet MakeConstant(PlaceId place);
  ValueSet ReadTerm(const GoalTerm& term);
  ValueSet ReadSchemaObject(PlaceId place);
  // `context`: what else is known of the values, from keywords beside it.
  ValueSet ReadApplicator(PlaceId place, std::size_t member, const ValueSet& context);

  // In-place applicators.
  ValueSet ReadReference(PlaceId place, std::string_view keyword);
  ValueSet ReadAllOf(PlaceId list);
  ValueSet ReadAnyOf(PlaceId list);
  ValueSet ReadOneOf(PlaceId place, PlaceId list, const ValueSet& context);
  ValueSet ReadNot(PlaceId place, const ValueSet& context);
  ValueSet ReadCondition(PlaceId place, const ValueSet& context);
  ValueSet ReadDependentSchemas(PlaceId place, std::string_view keyword);
  ValueSet ReadDependentRequired(PlaceId place, std::string_view keyword);
  // nullopt after an error or a relaxation of `keyword`.
  std::optional<ValueSet> Complement(PlaceId place, const ValueSet& set, const ValueSet& context,
                                     std::string_view keyword);

  // Keywords that assert something themselves.
  ValueSet ReadAssertions(PlaceId place);
  void ReadTypes(PlaceId place, ValueSet& values);
  void ReadNumbers(PlaceId place, ValueSet& values);
  void ReadBounds(PlaceId place, NumberShape& shape);
  void ReadFormat(PlaceId place, ValueSet& values);
  void ReadContent(PlaceId place, ValueSet& values);
  void AddFormat(std::string_view name, ValueSet& values);
  void ReadStrings(PlaceId place, ValueSet& values);
  void ReadArrays(PlaceId place, ValueSet& values);
  void ReadContains(PlaceId place, ArrayShape& shape);
  void ReadObjects(PlaceId place, ValueSet& values);
  void ReadProperties(PlaceId place, ObjectShape& shape);
  void ReadPatterns(PlaceId place, ObjectShape& shape);
  void ReadPropertyNames(PlaceId place, ObjectShape& shape);
  void ReadEnum(PlaceId place, ValueSet& values);
  // unevaluatedItems and unevaluatedProperties beside applicators (unevaluated.cc).
  void ReadUnevaluated(PlaceId place, ValueSet& values);
  void RestrictUnevaluatedItems(PlaceId place, ValueSet& values);
  void RestrictUnevaluatedProperties(PlaceId place, ValueSet& values);
  void NoteEvaluated(PlaceId place, ArrayShape& shape);
  void NoteEvaluated(PlaceId place, ObjectShape& shape);
  // Adds the intersections of the branches of anyOf, whose evaluated properties unite.
  void AddIntersections(PlaceId list, ValueSet& values);

  // --- Values of keywords ---
  std::optional<std::uint32_t> ReadCount(PlaceId place, std::string_view keyword);
  std::optional<Decimal> ReadNumber(PlaceId place, std::string_view keyword);
  void Invalid(PlaceId place, std::string_view keyword, std::string_view expected);
  void Unsupported(PlaceId place, std::string_view keyword, std::string reason, ValueSet& values);

  SchemaDocument& document_;
  StringPredicates& tests_;
  SchemaReport& report_;
  GoalTable goals_;
  ValueAlgebra algebra_;
  std::unordered_map<PlaceId, Memory> schemas_;
  std::unordered_map<PlaceId, ValueSet> constants_;
  std::deque<std::optional<ValueSet>> resolved_;             // by goal
  std::unordered_map<PlaceId, bool> listed_;                 // schemas that only list values
  std::unordered_map<std::string, PlaceId> first_of_equal_;  // by their keywords
  int depth_ = 0;
};

}  // namespace fathom::constraint
