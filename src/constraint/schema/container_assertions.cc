// The keywords that assert something of arrays and objects.
#include <algorithm>
#include <unordered_map>

#include "constraint/lists.h"
#include "constraint/schema/schema_reader.h"

namespace fathom::constraint {
namespace {

constexpr std::uint32_t kMaxMinimum = 256;  // the largest minProperties
constexpr std::uint32_t kMaxPrefixItems = 10'000;

}  // namespace

void SchemaReader::ReadArrays(PlaceId place, ValueSet& values) {
  if (values.arrays.empty()) return;
  const JsonValue& schema = document_.value(place);
  ArrayShape& shape = values.arrays[0];
  if (const auto count = ReadCount(place, "minItems")) shape.minimum = *count;
  if (const auto count = ReadCount(place, "maxItems")) shape.maximum = *count;
  const JsonValue* items = schema.Find("items");
  std::string_view prefix_keyword;
  if (const JsonValue* prefix = schema.Find("prefixItems");
      prefix != nullptr && prefix->IsArray()) {
    prefix_keyword = "prefixItems";
  } else if (items != nullptr && items->IsArray()) {
    prefix_keyword = "items";
  }
  if (!prefix_keyword.empty()) {
    const PlaceId list = document_.Child(place, prefix_keyword);
    const std::size_t n = document_.value(list).items().size();
    if (n > kMaxPrefixItems) {
      report_.Fail(ConstraintErrorCode::kTooLarge, document_.Pointer(place), prefix_keyword,
                   "expected fewer items");
      return;
    }
    for (std::size_t i = 0; i < n; ++i) shape.prefix.push_back(FindGoal(document_.Child(list, i)));
  }
  std::string_view rest_keyword;
  if (items != nullptr && !items->IsArray()) {
    rest_keyword = "items";
  } else if (prefix_keyword == "items" && schema.Find("additionalItems") != nullptr) {
    rest_keyword = "additionalItems";
  }
  if (!rest_keyword.empty()) shape.rest = FindGoal(document_.Child(place, rest_keyword));
  if (const JsonValue* unique = schema.Find("uniqueItems")) shape.unique = unique->boolean();
  ReadContains(place, shape);
  if (document_.has_unevaluated()) NoteEvaluated(place, shape);
  if (shape.minimum > shape.maximum) values.arrays.clear();
}

void SchemaReader::ReadContains(PlaceId place, ArrayShape& shape) {
  if (document_.value(place).Find("contains") == nullptr) return;
  ContainsShape contains{.item = FindGoal(document_.Child(place, "contains"))};
  if (const auto count = ReadCount(place, "minContains")) contains.minimum = *count;
  if (const auto count = ReadCount(place, "maxContains")) contains.maximum = *count;
  // `contains` may assert nothing and still evaluate items, on which unevaluatedItems depends.
  const bool annotates = document_.has_unevaluated() && contains.item != kAnyGoal;
  if (contains.minimum == 0 && contains.maximum == kNoMaximum && !annotates) return;
  if (contains.item == kAnyGoal) {
    shape.minimum = std::max(shape.minimum, contains.minimum);
    shape.maximum = std::min(shape.maximum, contains.maximum);
    return;
  }
  shape.contains.push_back(contains);
}

void SchemaReader::ReadObjects(PlaceId place, ValueSet& values) {
  if (values.objects.empty()) return;
  ObjectShape& shape = values.objects[0];
  if (const auto count = ReadCount(place, "minProperties")) shape.minimum = *count;
  if (const auto count = ReadCount(place, "maxProperties")) shape.maximum = *count;
  if (shape.minimum > kMaxMinimum) {
    report_.Fail(ConstraintErrorCode::kTooLarge, document_.Pointer(place), "minProperties",
                 "expected at most 256");
    return;
  }
  ReadPropertyNames(place, shape);
  ReadPatterns(place, shape);
  ReadProperties(place, shape);
  if (document_.has_unevaluated()) NoteEvaluated(place, shape);
  const bool impossible =
      std::ranges::any_of(shape.properties,
                          [](const PropertyShape& property) {
                            return property.required && property.value == kNeverGoal;
                          }) ||
      shape.minimum > shape.maximum || CountRequired(shape.properties) > shape.maximum;
  if (impossible) values.objects.clear();
}

void SchemaReader::ReadPropertyNames(PlaceId place, ObjectShape& shape) {
  if (document_.value(place).Find("propertyNames") == nullptr) return;
  const ValueSet& names = ReadSchema(document_.Child(place, "propertyNames"));
  const bool any = names.strings.size() == 1 && names.strings[0].IsFree();
  if (!any) shape.names.push_back(names.strings);
}

void SchemaReader::ReadPatterns(PlaceId place, ObjectShape& shape) {
  const JsonValue& schema = document_.value(place);
  KeyLayer layer;
  if (const JsonValue* patterns = schema.Find("patternProperties")) {
    const PlaceId map = document_.Child(place, "patternProperties");
    for (std::size_t i = 0; i < patterns->items().size(); ++i) {
      const ConstraintResult<StringPredicate> test = tests_.Pattern(patterns->key(i));
      if (test) {
        layer.patterns.push_back({.keys = *test, .value = FindGoal(document_.Child(map, i))});
      } else if (test.error().code == ConstraintErrorCode::kUnsupportedSchema) {
        // Without the pattern, nothing is known of keys that no property names.
        report_.Unsupported(document_.Pointer(place), "patternProperties", test.error().message);
        shape.explicit_additional = true;
        return;
      } else {
        report_.Fail(test.error().code, document_.Pointer(place), "patternProperties",
                     test.error().message);
      }
    }
  }
  if (schema.Find("additionalProperties") != nullptr) {
    shape.explicit_additional = true;
    layer.others = FindGoal(document_.Child(place, "additionalProperties"));
  }
  const bool says_nothing = layer.others == kAnyGoal &&
                            std::ranges::all_of(layer.patterns, [](const KeyPattern& pattern) {
                              return pattern.value == kAnyGoal;
                            });
  if (!says_nothing) shape.layers.push_back(std::move(layer));
}

void SchemaReader::ReadProperties(PlaceId place, ObjectShape& shape) {
  const JsonValue& schema = document_.value(place);
  std::unordered_map<std::string_view, std::size_t> index;
  if (const JsonValue* properties = schema.Find("properties")) {
    if (!properties->IsObject()) {
      Invalid(place, "properties", "an object");
      return;
    }
    shape.has_properties = true;
    const PlaceId map = document_.Child(place, "properties");
    KeyLayer layer = shape.layers.empty() ? KeyLayer() : shape.layers[0];
    layer.others = kAnyGoal;  // does not apply to keys that are named
    ObjectShape patterns{.layers = {layer}, .names = shape.names};
    for (std::size_t i = 0; i < properties->items().size(); ++i) {
      const std::string_view name = properties->key(i);
      const GoalId value = goals_.Both(FindGoal(document_.Child(map, i)),
                                       algebra_.OtherPropertyValue(patterns, name));
      index.emplace(name, shape.properties.size());
      shape.properties.push_back({.name = std::string(name), .value = value, .declared = true});
    }
  }
  const JsonValue* required = schema.Find("required");
  if (required == nullptr) return;
  if (!required->IsArray()) {
    Invalid(place, "required", "an array of names");
    return;
  }
  const ObjectShape undeclared{.layers = shape.layers, .names = shape.names};
  for (const JsonValue& name : required->items()) {
    const auto [found, is_new] = index.emplace(name.text(), shape.properties.size());
    if (is_new) {
      shape.properties.push_back({.name = std::string(name.text()),
                                  .value = algebra_.OtherPropertyValue(undeclared, name.text()),
                                  .required = true});
    } else {
      shape.properties[found->second].required = true;
    }
  }
}

}  // namespace fathom::constraint
