// The keywords that apply schemas to the same value: $ref, allOf, anyOf, oneOf, not, if,
// dependent*.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "constraint/lists.h"
#include "constraint/schema/schema_reader.h"

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxAllOf = 256;

}  // namespace

ValueSet SchemaReader::ReadReference(PlaceId place, std::string_view keyword) {
  const JsonValue& reference = *document_.value(place).Find(keyword);
  if (!reference.IsString()) {
    Invalid(place, keyword, "a URI reference");
    return {};
  }
  const std::string_view text = reference.text();
  const std::string_view anchor = text.substr(std::min(text.find('#'), text.size()));
  if ((keyword == "$recursiveRef" && (text != "#" || !document_.RecursesToRoot())) ||
      (keyword == "$dynamicRef" && !anchor.empty() && document_.IsDynamic(anchor.substr(1)))) {
    ValueSet values = ValueSet::All();
    Unsupported(place, keyword, "expected a reference that names one schema", values);
    return values;
  }
  if (document_.IsAmbiguous(place, text)) {
    report_.Fail(ConstraintErrorCode::kUnsupportedSchema, document_.Pointer(place), keyword,
                 "expected a $schema that says what the identifier beside it means");
  }
  bool remote = false;
  const std::optional<PlaceId> target = document_.Find(place, text, remote);
  if (target) return ReadSchema(*target);
  report_.Fail(
      remote ? ConstraintErrorCode::kUnsupportedSchema : ConstraintErrorCode::kInvalidSchema,
      document_.Pointer(place), keyword,
      fmt::format("expected a schema within this document, found {}", reference.Describe()));
  return {};
}

ValueSet SchemaReader::ReadAllOf(PlaceId list) {
  const std::size_t n = document_.value(list).items().size();
  if (n > kMaxAllOf) {
    report_.Fail(ConstraintErrorCode::kTooLarge, document_.Pointer(list), "",
                 fmt::format("expected at most {} schemas, found {}", kMaxAllOf, n));
    return {};
  }
  ValueSet values = ValueSet::All();
  for (std::size_t i = 0; i < n && !report_.failed(); ++i) {
    values = algebra_.Intersect(values, ReadSchema(document_.Child(list, i)));
  }
  return values;
}

ValueSet SchemaReader::ReadAnyOf(PlaceId list) {
  ValueSet values;
  const std::size_t n = document_.value(list).items().size();
  for (std::size_t i = 0; i < n && !report_.failed(); ++i) {
    ValueAlgebra::Append(values, ReadSchema(document_.Child(list, i)));
  }
  if (document_.has_unevaluated()) AddIntersections(list, values);
  algebra_.Tidy(values);
  return values;
}

ValueSet SchemaReader::ReadOneOf(PlaceId place, PlaceId list, const ValueSet& context) {
  std::vector<const ValueSet*> sets;
  const std::size_t n = document_.value(list).items().size();
  for (std::size_t i = 0; i < n && !report_.failed(); ++i) {
    sets.push_back(&ReadSchema(document_.Child(list, i)));
  }
  if (report_.failed()) return {};
  if (auto one = algebra_.ExactlyOne(sets, context)) return std::move(*one);
  ValueSet values = ReadAnyOf(list);
  if (!report_.failed()) {
    Unsupported(place, "oneOf", "expected schemas of which provably only one can hold", values);
  }
  return values;
}

std::optional<ValueSet> SchemaReader::Complement(PlaceId place, const ValueSet& set,
                                                 const ValueSet& context,
                                                 std::string_view keyword) {
  std::optional<ValueSet> rest = algebra_.Complement(set, context);
  if (rest) {
    algebra_.Tidy(*rest);
    return rest;
  }
  if (!report_.failed()) {
    report_.Unsupported(document_.Pointer(place), keyword,
                        "expected a schema whose contrary can be expressed");
  }
  return std::nullopt;
}

ValueSet SchemaReader::ReadNot(PlaceId place, const ValueSet& context) {
  const PlaceId schema = document_.Child(place, "not");
  if (auto rest = Complement(place, ReadSchema(schema), context, "not")) {
    return std::move(*rest);
  }
  ValueSet values = ValueSet::All();
  values.exact = false;
  return values;
}

ValueSet SchemaReader::ReadCondition(PlaceId place, const ValueSet& context) {
  const JsonValue& schema = document_.value(place);
  const bool has_then = schema.Find("then") != nullptr;
  const bool has_else = schema.Find("else") != nullptr;
  // Alone, `if` asserts nothing, but unevaluated* depends on what it has evaluated.
  if (!has_then && !has_else && !document_.has_unevaluated()) return ValueSet::All();
  const ValueSet& condition = ReadSchema(document_.Child(place, "if"));
  ValueSet values = condition;
  if (has_then) {
    values = algebra_.Intersect(condition, ReadSchema(document_.Child(place, "then")));
  }
  ValueSet otherwise = ValueSet::All();
  if (auto rest = Complement(place, condition, context, "if")) {
    otherwise = std::move(*rest);
  } else {
    values.exact = false;
  }
  if (has_else) {
    otherwise = algebra_.Intersect(otherwise, ReadSchema(document_.Child(place, "else")));
  }
  ValueAlgebra::Append(values, otherwise);
  algebra_.Tidy(values);
  return values;
}

ValueSet SchemaReader::ReadDependentSchemas(PlaceId place, std::string_view keyword) {
  const PlaceId map = document_.Child(place, keyword);
  const JsonValue& schemas = document_.value(map);
  ValueSet values = ValueSet::All();
  for (std::size_t i = 0; i < schemas.items().size() && !report_.failed(); ++i) {
    if (schemas.items()[i].IsArray()) continue;  // a list of names in `dependencies`
    const std::string name(schemas.key(i));
    ValueSet with = ValueSet::All();
    with.objects[0].properties.push_back({.name = name, .required = true});
    with = algebra_.Intersect(with, ReadSchema(document_.Child(map, i)));
    ValueSet both = ValueSet::All();
    both.objects[0].properties.push_back({.name = name, .value = kNeverGoal});
    AddAll(both.objects, with.objects);
    both.exact = with.exact;
    both.exact_containers = with.exact_containers;
    values = algebra_.Intersect(values, both);
  }
  return values;
}

ValueSet SchemaReader::ReadDependentRequired(PlaceId place, std::string_view keyword) {
  const PlaceId map = document_.Child(place, keyword);
  const JsonValue& lists = document_.value(map);
  ValueSet values = ValueSet::All();
  for (std::size_t i = 0; i < lists.items().size() && !report_.failed(); ++i) {
    const JsonValue& list = lists.items()[i];
    if (!list.IsArray() && keyword == "dependencies") continue;
    if (!list.IsArray()) {
      Invalid(place, keyword, "arrays of names");
      return {};
    }
    if (list.items().empty()) continue;
    const std::string name(lists.key(i));
    std::set<std::string, std::less<>> names = {name};
    ObjectShape with{.properties = {{.name = name, .required = true}}};
    for (const JsonValue& other : list.items()) {
      if (names.emplace(other.text()).second) {
        with.properties.push_back({.name = std::string(other.text()), .required = true});
      }
    }
    ValueSet both = ValueSet::All();
    both.objects[0].properties.push_back({.name = name, .value = kNeverGoal});
    both.objects.push_back(std::move(with));
    values = algebra_.Intersect(values, both);
  }
  return values;
}

}  // namespace fathom::constraint
