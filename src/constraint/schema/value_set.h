// ValueSet: a set of JSON values as a union of shapes, each a conjunction of what keywords say.
//
// The values of properties and items are goals: conjunctions of places of the schema, which are
// resolved to value sets when they are needed. Hence recursive schemas are finite, and equal
// conjunctions are resolved once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/schema/number_shape.h"
#include "constraint/schema/schema_document.h"
#include "constraint/schema/string_predicates.h"

namespace fathom::constraint {

// A conjunction of terms, owned by a GoalTable.
using GoalId = std::uint32_t;
inline constexpr GoalId kAnyGoal = 0;
inline constexpr GoalId kNeverGoal = 1;

// The demand of one place of the schema on a value.
struct GoalTerm {
  PlaceId place = 0;
  // The value equals the constant at the place; else it satisfies the schema there.
  bool constant = false;
  bool negated = false;
  friend auto operator<=>(const GoalTerm&, const GoalTerm&) = default;
};

class GoalTable {
 public:
  // `meter` must outlive the table.
  explicit GoalTable(WorkMeter& meter) : meter_(meter), terms_(2) {}

  GoalId Of(GoalTerm term) { return Intern({term}); }
  // Terms keep their order, the terms of `a` first: it decides the order of keys.
  GoalId Both(GoalId a, GoalId b);
  // Empty for kAnyGoal and kNeverGoal.
  const std::vector<GoalTerm>& terms(GoalId goal) const { return terms_[goal]; }
  // The goals whose union is what the goal excludes.
  std::vector<GoalId> Negations(GoalId goal);
  std::size_t size() const { return terms_.size(); }

 private:
  GoalId Intern(std::vector<GoalTerm> terms);

  WorkMeter& meter_;
  std::vector<std::vector<GoalTerm>> terms_;
  std::map<std::vector<GoalTerm>, GoalId> ids_;
};

// --- Arrays ---

struct ContainsShape {
  GoalId item = kAnyGoal;
  std::uint32_t minimum = 1;
  std::uint32_t maximum = kNoMaximum;
  friend bool operator==(const ContainsShape&, const ContainsShape&) = default;
};

struct ArrayShape {
  std::vector<GoalId> prefix{};
  GoalId rest = kAnyGoal;
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
  bool unique = false;
  std::vector<ContainsShape> contains{};
  // The items, the first ones or all, that unevaluatedItems of an enclosing schema does not touch.
  std::uint32_t n_evaluated = 0;
  bool evaluates_all = false;

  GoalId ItemAt(std::size_t i) const { return i < prefix.size() ? prefix[i] : rest; }
  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

// --- Objects ---

struct PropertyShape {
  std::string name{};
  GoalId value = kAnyGoal;  // kNeverGoal: the key must not occur
  bool required = false;
  bool declared = false;  // declared by `properties`; such properties come first
  friend bool operator==(const PropertyShape&, const PropertyShape&) = default;
};

struct KeyPattern {
  StringPredicate keys{};
  GoalId value = kAnyGoal;
  friend bool operator==(const KeyPattern&, const KeyPattern&) = default;
};

// The rule of one schema for keys that no property names: each must satisfy the values of all
// patterns it matches, or `others` if there is none.
struct KeyLayer {
  std::vector<KeyPattern> patterns{};
  GoalId others = kAnyGoal;
  friend bool operator==(const KeyLayer&, const KeyLayer&) = default;
};

// Demands that some member has a value of the goal, and a key of the shape that is none of the
// names.
struct MemberDemand {
  std::vector<std::string> names{};  // sorted
  StringShape keys{};
  GoalId value = kAnyGoal;
  friend bool operator==(const MemberDemand&, const MemberDemand&) = default;
};

struct ObjectShape {
  std::vector<PropertyShape> properties{};  // each name once
  std::vector<KeyLayer> layers{};
  // Every key is in one shape of each entry (propertyNames).
  std::vector<std::vector<StringShape>> names{};
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
  std::vector<MemberDemand> demands{};  // each holds; one member may meet several
  bool has_properties = false;          // the keyword `properties` is there, perhaps without names
  bool explicit_additional = false;     // a keyword is about additional properties
  // The keys that unevaluatedProperties of an enclosing schema does not touch. Names are sorted.
  std::vector<std::string> evaluated_names{};
  std::vector<StringPredicate> evaluated_patterns{};
  bool evaluates_all = false;

  // The property of this name, or null.
  const PropertyShape* Find(std::string_view name) const {
    for (const PropertyShape& property : properties) {
      if (property.name == name) return &property;
    }
    return nullptr;
  }

  friend bool operator==(const ObjectShape&, const ObjectShape&) = default;
};

// --- All ---

struct ValueSet {
  bool null = false;
  bool true_value = false;
  bool false_value = false;
  std::vector<NumberShape> numbers{};
  std::vector<StringShape> strings{};
  std::vector<ArrayShape> arrays{};
  std::vector<ObjectShape> objects{};
  // False if the set is larger than the schema's, because keywords were relaxed. The complement of
  // such a set means nothing.
  bool exact = true;
  // False if there are too few arrays or objects: branches of oneOf are distinguished by required
  // properties only, or not all ways to evaluate properties are known. Their complement means
  // nothing.
  bool exact_containers = true;

  static ValueSet All() {
    return {.null = true,
            .true_value = true,
            .false_value = true,
            .numbers = {{}},
            .strings = {{}},
            .arrays = {{}},
            .objects = {{}}};
  }
  bool IsEmpty() const {
    return !null && !true_value && !false_value && numbers.empty() && strings.empty() &&
           arrays.empty() && objects.empty();
  }
  bool operator==(const ValueSet&) const = default;
};
// Memory of the set, roughly.
std::size_t BytesOf(const ValueSet& values);

}  // namespace fathom::constraint
