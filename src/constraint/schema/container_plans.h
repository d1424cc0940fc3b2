// Plans of arrays and objects: shapes made ready to be written as expressions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "constraint/schema/schema_reader.h"
#include "constraint/schema/text_tests.h"
#include "constraint/schema/value_set.h"

namespace fathom {

// Keys that no property names, of infinitely many.
struct KeyClass {
  StringShape keys{};
  GoalId value = kAnyGoal;
};

struct ObjectPlan {
  // Properties that may occur, in the order of keys.
  std::vector<PropertyShape> properties{};
  std::vector<KeyClass> others{};       // do not overlap; may contain names of properties
  std::vector<std::string> excluded{};  // names of all properties, also of those that may not occur
  std::uint32_t minimum = 0;            // members
  std::uint32_t maximum = kNoMaximum;
  std::uint32_t minimum_others = 0;  // members whose keys are in `others`
};

// The items that may stand at a place, by the set of `contains` they count for.
using ItemChoices = std::vector<std::vector<GoalId>>;

struct ArrayPlan {
  std::vector<ItemChoices> items{};  // of the prefix, and last the rest
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
  bool unique = false;
  std::vector<ContainsShape> contains{};

  const ItemChoices& At(std::size_t i) const { return items[std::min(i, items.size() - 1)]; }
};

class ContainerPlanner {
 public:
  ContainerPlanner(SchemaReader& reader, TextTests& tests, SchemaReport& report,
                   bool closed_objects)
      : reader_(reader), tests_(tests), report_(report), closed_objects_(closed_objects) {}

  // A shape may need several plans; their union is the shape. `goal`: for messages.
  std::vector<ObjectPlan> PlanObject(const ObjectShape& shape, GoalId goal);
  // nullopt: plainly no array is in the shape.
  std::optional<ArrayPlan> PlanArray(const ArrayShape& shape, GoalId goal);

  // The number of values of a goal if they are scalars and at most `most`.
  std::optional<std::size_t> CountScalars(GoalId goal, std::size_t most);

 private:
  struct MatchedKeys {
    StringShape keys{};
    std::vector<bool> matched{};  // by test
  };
  std::vector<KeyClass> ClassifyOthers(const ObjectShape& shape);
  std::vector<MatchedKeys> SplitByTests(std::vector<StringShape> keys,
                                        const std::vector<TextTest>& tests);
  ObjectPlan PlanOne(const ObjectShape& shape, std::uint32_t minimum_others);
  bool PlanContains(const ArrayShape& shape, ArrayPlan& plan);
  bool PlanUnique(const ArrayShape& shape, ArrayPlan& plan);

  SchemaReader& reader_;
  TextTests& tests_;
  SchemaReport& report_;
  bool closed_objects_;
  std::string pointer_{};  // of what is planned
};

}  // namespace fathom
