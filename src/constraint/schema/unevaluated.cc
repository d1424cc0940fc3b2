// unevaluatedItems and unevaluatedProperties: each shape of a union is one way in which the schemas
// beside them hold, so it knows which items and properties these schemas evaluated.
#include <algorithm>

#include "constraint/schema/schema_reader.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxIntersected = 4;  // branches of anyOf

}  // namespace

void SchemaReader::NoteEvaluated(PlaceId place, ArrayShape& shape) {
  const JsonValue& schema = document_.value(place);
  shape.n_evaluated = static_cast<std::uint32_t>(shape.prefix.size());
  const JsonValue* items = schema.Find("items");
  const bool is_prefix = items != nullptr && items->IsArray();
  const bool has_every = schema.Find("contains") != nullptr && document_.ContainsEvaluates(place) &&
                         FindGoal(document_.Child(place, "contains")) == kAnyGoal;
  shape.evaluates_all = (items != nullptr && !is_prefix) || has_every ||
                        (is_prefix && schema.Find("additionalItems") != nullptr);
}

void SchemaReader::NoteEvaluated(PlaceId place, ObjectShape& shape) {
  const JsonValue& schema = document_.value(place);
  for (const PropertyShape& property : shape.properties) {
    if (property.declared) shape.evaluated_names.push_back(property.name);
  }
  std::sort(shape.evaluated_names.begin(), shape.evaluated_names.end());
  if (const JsonValue* patterns = schema.Find("patternProperties")) {
    for (std::size_t i = 0; i < patterns->items().size(); ++i) {
      const ConstraintResult<StringPredicate> test = tests_.Pattern(patterns->key(i));
      if (test) shape.evaluated_patterns.push_back(*test);
    }
  }
  shape.evaluates_all = schema.Find("additionalProperties") != nullptr;
}

void SchemaReader::AddIntersections(PlaceId list, ValueSet& values) {
  const std::size_t n = document_.value(list).items().size();
  if (n > kMaxIntersected) {
    values.exact_containers = false;
    return;
  }
  for (std::size_t set = 1; set < (std::size_t{1} << n) && !report_.failed(); ++set) {
    if ((set & (set - 1)) == 0) continue;  // one branch
    ValueSet both = ValueSet::All();
    for (std::size_t i = 0; i < n; ++i) {
      if ((set >> i & 1) != 0) {
        both = algebra_.Intersect(both, ReadSchema(document_.Child(list, i)));
      }
    }
    ValueAlgebra::Append(values, both);
  }
}

void SchemaReader::ReadUnevaluated(PlaceId place, ValueSet& values) {
  const JsonValue& schema = document_.value(place);
  if (report_.failed()) return;
  if (schema.Find("unevaluatedItems") != nullptr) {
    RestrictUnevaluatedItems(place, values);
    values.exact_containers = false;
  }
  if (schema.Find("unevaluatedProperties") != nullptr) {
    RestrictUnevaluatedProperties(place, values);
    values.exact_containers = false;
  }
}

void SchemaReader::RestrictUnevaluatedItems(PlaceId place, ValueSet& values) {
  const GoalId others = FindGoal(document_.Child(place, "unevaluatedItems"));
  std::vector<ArrayShape> restricted;
  for (ArrayShape& shape : values.arrays) {
    if (!shape.contains.empty() && !shape.evaluates_all && others != kAnyGoal) {
      Unsupported(place, "unevaluatedItems", "expected no `contains` beside it", values);
      return;
    }
    while (!shape.evaluates_all && shape.prefix.size() < shape.n_evaluated) {
      shape.prefix.push_back(shape.rest);
    }
    for (std::size_t i = shape.n_evaluated; !shape.evaluates_all && i < shape.prefix.size(); ++i) {
      shape.prefix[i] = goals_.Both(shape.prefix[i], others);
      if (shape.prefix[i] != kNeverGoal) continue;
      shape.prefix.resize(i);
      shape.maximum = std::min(shape.maximum, static_cast<std::uint32_t>(i));
    }
    if (!shape.evaluates_all) shape.rest = goals_.Both(shape.rest, others);
    shape.evaluates_all = true;
    if (shape.minimum <= shape.maximum) restricted.push_back(std::move(shape));
  }
  values.arrays = std::move(restricted);
}

void SchemaReader::RestrictUnevaluatedProperties(PlaceId place, ValueSet& values) {
  const GoalId others = FindGoal(document_.Child(place, "unevaluatedProperties"));
  std::vector<ObjectShape> restricted;
  for (ObjectShape& shape : values.objects) {
    bool possible = true;
    KeyLayer layer{.others = others};
    for (const StringPredicate pattern : shape.evaluated_patterns)
      layer.patterns.push_back({pattern});
    for (PropertyShape& property : shape.properties) {
      const bool evaluated =
          shape.evaluates_all ||
          std::binary_search(shape.evaluated_names.begin(), shape.evaluated_names.end(),
                             property.name) ||
          std::ranges::any_of(shape.evaluated_patterns, [&](StringPredicate test) {
            return tests_.Matches(test, property.name);
          });
      if (evaluated) continue;
      property.value = goals_.Both(property.value, others);
      possible &= !property.required || property.value != kNeverGoal;
    }
    if (!shape.evaluates_all && others != kAnyGoal) shape.layers.push_back(std::move(layer));
    shape.explicit_additional = true;
    shape.evaluates_all = true;
    if (possible) restricted.push_back(std::move(shape));
  }
  values.objects = std::move(restricted);
}

}  // namespace fathom::constraint
