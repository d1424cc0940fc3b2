// ContainerPlanner: plans of arrays and objects, which are shapes made ready to be written as
// expressions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraint/schema/schema_reader.h"
#include "constraint/schema/string_predicates.h"
#include "constraint/schema/value_set.h"

namespace fathom::constraint {

// Limits of a plan of objects.
constexpr std::size_t kMaxListedKeys = 256;  // keys that are listed of a finite class
constexpr std::size_t kSurveyCost = 200;     // finding the names of a class, in steps of merging

// Some of the infinitely many keys that no property names.
struct KeyClass {
  StringShape keys{};
  GoalId value = kAnyGoal;
};

struct ObjectPlan {
  // Properties that may occur, in the order of keys.
  std::vector<PropertyShape> properties{};
  std::vector<KeyClass> others{};       // do not overlap; may contain names of properties
  std::vector<std::string> excluded{};  // names of all properties, also if they may not occur
  std::uint32_t minimum = 0;            // bounds of the number of members
  std::uint32_t maximum = kNoMaximum;
  std::uint32_t minimum_others = 0;  // members whose keys are in `others`
  // By set of demands, as bits: the members in `others` that meet all demands of the set (the first
  // entry, for no demand, is empty). Each demand is met by one of the members. Empty: there is no
  // demand.
  std::vector<std::vector<KeyClass>> wanted{};
};

// The items that a place may have, by the set of `contains` for which they count.
using ItemChoices = std::vector<std::vector<GoalId>>;

struct ArrayPlan {
  std::vector<ItemChoices> items{};  // by place: the items of the prefix, and last the rest
  std::uint32_t minimum = 0;
  std::uint32_t maximum = kNoMaximum;
  bool unique = false;
  // Items may run out: no blank follows a comma, so that a comma is taken only directly before an
  // item.
  bool tight = false;
  std::vector<ContainsShape> contains{};

  const ItemChoices& At(std::size_t i) const { return items[std::min(i, items.size() - 1)]; }
};

struct PlanOptions {
  bool closed_objects = false;  // JsonSchemaOptions::closed_objects
  // Every value has one text: keys are in the order of InOneOrder, the undeclared ones ascending.
  bool canonical = false;
};

class ContainerPlanner {
 public:
  ContainerPlanner(SchemaReader& reader, StringPredicates& tests, SchemaReport& report,
                   PlanOptions options)
      : reader_(reader), tests_(tests), report_(report), options_(options) {}

  // A shape may need several plans; their union is the shape. `goal`: for messages.
  std::vector<ObjectPlan> PlanObject(const ObjectShape& shape, GoalId goal);
  // nullopt: plainly no array is in the shape.
  std::optional<ArrayPlan> PlanArray(const ArrayShape& shape, GoalId goal);

  // For canonical texts (canonical_order.cc): the object shapes of a goal, each with the names of
  // all these shapes as properties, in one order.
  std::vector<ObjectShape> InOneOrder(GoalId goal);
  // True if the order of keys gives each value of a goal one text, whatever shapes it is in.
  bool HasOneText(GoalId goal);

 private:
  struct MatchedKeys {
    StringShape keys{};
    std::vector<bool> matched{};  // by test: whether the keys match it
  };
  std::vector<KeyClass> ClassifyOthers(const ObjectShape& shape);
  std::vector<MatchedKeys> SplitByTests(std::vector<StringShape> keys,
                                        const std::vector<StringPredicate>& tests);
  // Appends to a shape, as properties, the names that its demands and the finite classes of its
  // other keys distinguish.
  void NameDemandedKeys(ObjectShape& shape);
  // The other keys that meet all of the demands.
  std::vector<KeyClass> MeetDemands(const std::vector<KeyClass>& others,
                                    const std::vector<const MemberDemand*>& demands);
  // A shape, and the demands that its other members must meet.
  struct Variant {
    ObjectShape shape{};
    std::vector<MemberDemand> open{};
  };
  // The ways to meet a demand: by one of the properties, or by another member.
  void MeetByProperties(const MemberDemand& demand, Variant variant, std::vector<Variant>& ways);
  void PlanDemands(const Variant& variant, ObjectPlan& plan);
  ObjectPlan PlanOne(const Variant& variant);
  // The number of scalars if there are at most `most`.
  std::optional<std::size_t> CountScalars(const ValueSet& values, std::size_t most);
  // True if the goal provably has at least n values.
  bool HasMany(GoalId goal, std::size_t n, int nesting);
  bool SearchMany(GoalId goal, std::size_t n, int nesting);
  bool LeavesChoices(GoalId goal, std::uint32_t n_before, bool& empty);
  void NeedExtendableKeys(const ObjectPlan& plan, std::size_t n_required);
  bool PlanContains(const ArrayShape& shape, ArrayPlan& plan);
  bool PlanUnique(const ArrayShape& shape, ArrayPlan& plan);

  // An object shape in one order, with the values of its other keys.
  struct OrderedShape {
    ObjectShape shape{};
    std::vector<GoalId> others{};
  };
  using GoalPair = std::pair<GoalId, GoalId>;
  const std::vector<OrderedShape>& Ordered(GoalId goal);
  // True if the shape has none but the named properties, of which `n_properties` may occur.
  bool IsClosed(const ObjectShape& shape, std::size_t n_properties) const;
  // True if values in both goals have one text, provided that values in the pairs added to `more`
  // have one.
  bool CompareOrders(const GoalPair& goals, std::vector<GoalPair>& more);
  bool CompareObjects(const OrderedShape& a, const OrderedShape& b, std::vector<GoalPair>& more);
  bool CompareArrays(const ArrayShape& a, const ArrayShape& b, std::vector<GoalPair>& more);

  SchemaReader& reader_;
  StringPredicates& tests_;
  SchemaReport& report_;
  const PlanOptions options_;
  std::string pointer_{};  // the pointer of the schema that is being planned
  std::unordered_map<GoalId, std::vector<OrderedShape>> ordered_;
  std::map<GoalId, bool> one_text_;
  std::map<std::tuple<GoalId, std::size_t, int>, bool> has_many_;
};

}  // namespace fathom::constraint
