// ValueAlgebra: intersection, complement and disjointness of value sets
// (docs/spec/constrained.md 2.2: allOf, not, oneOf). In the files of this folder, "plainly" means:
// found without a search.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "constraint/schema/schema_report.h"
#include "constraint/schema/value_set.h"

namespace fathom::constraint {

class SchemaReader;

class ValueAlgebra {
 public:
  ValueAlgebra(GoalTable& goals, StringPredicates& tests, SchemaReport& report,
               SchemaReader& reader)
      : goals_(goals), tests_(tests), report_(report), reader_(reader) {}

  // As GoalTable::Both. Where both goals have lists of values, it finds whether the lists exclude
  // each other, or one is within the other, so that cases which a member distinguishes do not
  // multiply.
  GoalId Both(GoalId a, GoalId b);

  // Properties keep their order, the properties of `a` first.
  ValueSet Intersect(const ValueSet& a, const ValueSet& b);
  // Appends b to a. Call Tidy after the last one.
  static void Append(ValueSet& a, const ValueSet& b);
  // Removes shapes that other shapes plainly contain, and merges lists of literals.
  void Tidy(ValueSet& set);
  // The complement within the context; nullopt if it cannot be expressed. It may have more values,
  // which are not in the context.
  std::optional<ValueSet> Complement(const ValueSet& set, const ValueSet& context);
  // True if provably no value is in both. False proves nothing.
  bool AreDisjoint(const ValueSet& a, const ValueSet& b) { return AreDisjoint(a, b, kMaxNesting); }

  // The values that are in exactly one of the sets, as far as they are in the context; nullopt if
  // that cannot be expressed. May be smaller where the complements of objects are too many.
  std::optional<ValueSet> ExactlyOne(const std::vector<const ValueSet*>& sets,
                                     const ValueSet& context);

  // The goal that the shape sets for the value of a key, named or not.
  GoalId PropertyValue(const ObjectShape& shape, std::string_view name);
  GoalId OtherPropertyValue(const ObjectShape& shape, std::string_view name);

  std::optional<ArrayShape> Intersect(const ArrayShape& a, const ArrayShape& b);
  std::optional<ObjectShape> Intersect(const ObjectShape& a, const ObjectShape& b);

 private:
  static constexpr int kMaxNesting = 3;  // nested properties in a proof of disjointness

  GoalId BothListed(GoalId a, GoalId b);
  bool AreDisjoint(const ValueSet& a, const ValueSet& b, int nesting);
  bool AreDisjoint(const NumberShape& a, const NumberShape& b, int nesting);
  bool AreDisjoint(const StringShape& a, const StringShape& b, int nesting);
  bool AreDisjoint(const ArrayShape& a, const ArrayShape& b, int nesting);
  bool AreDisjoint(const ObjectShape& a, const ObjectShape& b, int nesting);
  // `steps`: the cost of comparing two shapes.
  template <class Shape>
  bool AreDisjoint(const std::vector<Shape>& a, const std::vector<Shape>& b, int nesting,
                   std::size_t steps);
  bool AreDisjointGoals(GoalId a, GoalId b, int nesting);

  static std::optional<std::vector<NumberShape>> Complement(const NumberShape& shape) {
    return constraint::Complement(shape);
  }
  static std::optional<std::vector<StringShape>> Complement(const StringShape& shape) {
    return StringPredicates::Complement(shape);
  }
  std::optional<std::vector<ArrayShape>> Complement(const ArrayShape& shape);
  std::optional<std::vector<ObjectShape>> Complement(const ObjectShape& shape);
  // The texts in none of the shapes.
  std::vector<StringShape> KeysOutside(const std::vector<StringShape>& names);
  // The objects without a member that meets the demand.
  std::optional<ObjectShape> Contrary(const MemberDemand& demand);
  // The objects outside the shape that lack a required property or have another value for it:
  // smaller than the complement. nullopt if nothing is required.
  std::optional<std::vector<ObjectShape>> PlainContrary(const ObjectShape& shape);
  // The pairs that the intersection of two unions can leave out. If a shape x of one side is within
  // a shape y of the other side, then x and y intersect in x, and all other intersections of x are
  // within x.
  struct Absorption {
    static constexpr std::size_t kNone = ~std::size_t{0};
    std::vector<std::size_t> of_a{};  // by shape of a: a shape of b that it is within, or kNone
    std::vector<std::size_t> of_b{};
    bool Drops(std::size_t i, std::size_t j) const {
      if (of_a.empty()) return false;
      // A row or column that is absorbed keeps one cell: the one of its absorber.
      if (of_a[i] != kNone) return of_a[i] != j;
      return of_b[j] != kNone && of_b[j] != i;
    }
  };
  template <class Shape>
  Absorption Absorb(const std::vector<Shape>& a, const std::vector<Shape>& b);
  // True if the first shape is plainly a part of the second one: it makes the same demands, or
  // harder ones. False proves nothing.
  bool IsWithin(GoalId a, GoalId b) const;
  bool IsWithin(const NumberShape& a, const NumberShape& b) const;
  bool IsWithin(const StringShape& a, const StringShape& b) const;
  bool IsWithin(const ArrayShape& a, const ArrayShape& b) const;
  bool IsWithin(const ObjectShape& a, const ObjectShape& b) const;

  template <class Shape, class ComplementOne>
  std::optional<std::vector<Shape>> ComplementAll(const std::vector<Shape>& shapes,
                                                  ComplementOne complement);
  // Fails where several cases on each side make more than `most` shapes.
  template <class Shape>
  std::vector<Shape> IntersectAll(const std::vector<Shape>& a, const std::vector<Shape>& b,
                                  std::size_t most = kNoMaximum);
  // Works on the shapes of one kind. `within`: the sets within the context; only these are
  // compared.
  template <class Shape, class ComplementOne>
  std::optional<std::vector<Shape>> ExactlyOneOf(const std::vector<const ValueSet*>& sets,
                                                 const std::vector<ValueSet>& within,
                                                 std::vector<Shape> ValueSet::*member,
                                                 ComplementOne complement);

  static std::optional<NumberShape> Intersect(const NumberShape& a, const NumberShape& b) {
    return constraint::Intersect(a, b);
  }
  std::optional<StringShape> Intersect(const StringShape& a, const StringShape& b) {
    return tests_.Intersect(a, b);
  }

  GoalTable& goals_;
  StringPredicates& tests_;
  SchemaReport& report_;
  SchemaReader& reader_;
  std::map<std::pair<GoalId, GoalId>, GoalId> both_;
};

}  // namespace fathom::constraint
