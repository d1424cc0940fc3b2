#include "constraint/schema/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "constraint/schema/keywords.h"
#include "constraint/schema/string_formats.h"
#include "json/json_writer.h"

namespace fathom::constraint {
namespace {

// Schemas that apply to the same value, one within another.
constexpr int kMaxApplicators = 300;
constexpr std::size_t kMaxGoals = 100'000;

bool IsScalar(const JsonValue& value) { return !value.IsArray() && !value.IsObject(); }

bool IsPlain(const JsonValue& value) {
  return IsScalar(value) || (value.IsArray() && std::ranges::all_of(value.items(), IsScalar));
}

// True if reading the keyword reports, at the pointer of its schema, that it cannot be asserted.
bool IsReported(StringPredicates& tests, std::string_view keyword, const JsonValue& value) {
  if (keyword == "pattern") return !value.IsString() || !tests.Pattern(value.text());
  if (keyword != "format" || !value.IsString()) return false;
  const std::string_view name = value.text();
  return name != "int32" && name != "int64" && FindStringFormat(name) == nullptr;
}

}  // namespace

SchemaReader::SchemaReader(SchemaDocument& document, StringPredicates& tests, SchemaReport& report)
    : document_(document),
      tests_(tests),
      report_(report),
      goals_(report.meter()),
      algebra_(goals_, tests, report, *this) {}

PlaceId SchemaReader::FollowReferences(PlaceId schema) {
  constexpr int kMaxFollowed = 16;
  for (int i = 0; i < kMaxFollowed; ++i) {
    const JsonValue& value = document_.value(schema);
    const JsonValue* reference = value.IsObject() ? value.Find("$ref") : nullptr;
    if (reference == nullptr || !reference->IsString()) break;
    bool is_mere = document_.RefHidesSiblings(schema);
    for (std::size_t k = 0; k < value.items().size() && !is_mere; ++k) {
      if (value.key(k) != "$ref" && !IsAnnotation(value.key(k))) return schema;
    }
    bool remote = false;
    if (document_.IsAmbiguous(schema, reference->text())) break;
    const std::optional<PlaceId> target = document_.Find(schema, reference->text(), remote);
    if (!target) break;
    schema = *target;
  }
  return schema;
}

// Schemas with the same keywords have one goal. Most properties of large schemas are like others,
// such as {"type":"string"} with another description.
PlaceId SchemaReader::FirstOfEqual(PlaceId schema) {
  const JsonValue& value = document_.value(schema);
  if (!value.IsObject()) return schema;
  constexpr std::size_t kMaxMembers = 16;
  if (value.items().size() > kMaxMembers) return schema;
  std::string key;
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    const std::string_view keyword = value.key(i);
    const JsonValue& item = value.items()[i];
    if (IsAnnotation(keyword)) continue;
    if (!IsAssertion(keyword)) return schema;
    if (!IsPlain(item) || IsReported(tests_, keyword, item)) return schema;
    key += keyword;
    key += WriteJson(item);
  }
  return first_of_equal_.try_emplace(std::move(key), schema).first->second;
}

GoalId SchemaReader::FindGoal(PlaceId schema) {
  schema = FollowReferences(schema);
  const JsonValue& value = document_.value(schema);
  if (value.kind() == JsonValue::Kind::kBool) return value.boolean() ? kAnyGoal : kNeverGoal;
  if (value.IsObject() && value.items().empty()) return kAnyGoal;
  return goals_.Of({.place = FirstOfEqual(schema)});
}

std::string SchemaReader::Pointer(GoalId goal) const {
  const std::vector<GoalTerm>& terms = goals_.terms(goal);
  return terms.empty() ? "" : document_.Pointer(terms[0].place);
}

const ValueSet& SchemaReader::Resolve(GoalId goal) {
  if (goal >= resolved_.size()) resolved_.resize(goal + 1);
  if (resolved_[goal]) return *resolved_[goal];
  if (goals_.size() > kMaxGoals) {
    report_.Fail(ConstraintErrorCode::kTooLarge, "", "",
                 fmt::format("expected at most {} combinations of subschemas", kMaxGoals));
  }
  ValueSet values = goal == kNeverGoal ? ValueSet() : ValueSet::All();
  const std::vector<GoalTerm> terms = goals_.terms(goal);
  for (const GoalTerm& term : terms) {
    if (report_.failed()) break;
    values = algebra_.Intersect(values, ReadTerm(term));
  }
  if (goal >= resolved_.size()) resolved_.resize(goal + 1);
  // Resolving the terms may have come here before.
  if (!resolved_[goal]) Remember(goal, std::move(values));
  return *resolved_[goal];
}

void SchemaReader::AppendInPlace(PlaceId place, std::vector<PlaceId>& schemas) {
  const JsonValue& schema = document_.value(place);
  if (!schema.IsObject()) return;
  for (const std::string_view keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const JsonValue* reference = schema.Find(keyword);
    if (reference == nullptr || !reference->IsString()) continue;
    bool remote = false;
    const auto target = document_.Find(place, reference->text(), remote);
    if (target) schemas.push_back(*target);
    if (document_.RefHidesSiblings(place)) return;
  }
  for (const std::string_view keyword : {"not", "if", "then", "else", "propertyNames"}) {
    if (schema.Find(keyword) != nullptr) schemas.push_back(document_.Child(place, keyword));
  }
  for (const std::string_view keyword :
       {"allOf", "anyOf", "oneOf", "dependencies", "dependentSchemas"}) {
    const JsonValue* list = schema.Find(keyword);
    if (list == nullptr) continue;
    const PlaceId list_place = document_.Child(place, keyword);
    for (std::size_t i = 0; i < list->items().size(); ++i) {
      schemas.push_back(document_.Child(list_place, i));
    }
  }
}

bool SchemaReader::IsOpen(GoalId goal) {
  if (goal < resolved_.size() && resolved_[goal]) return false;
  std::vector<PlaceId> open;
  for (const GoalTerm& term : goals_.terms(goal)) {
    if (!term.constant) open.push_back(term.place);
  }
  std::unordered_set<PlaceId> visited;
  while (!open.empty()) {
    const PlaceId place = open.back();
    open.pop_back();
    if (!visited.insert(place).second || !report_.Spend(1)) continue;
    const auto memory = schemas_.find(place);
    if (memory != schemas_.end() && memory->second.reading) return true;
    if (memory == schemas_.end() || !memory->second.values) AppendInPlace(place, open);
  }
  return false;
}

bool SchemaReader::IsListed(const GoalTerm& term) {
  const JsonValue& value = document_.value(term.place);
  if (term.constant) return IsScalar(value);
  const auto [known, is_new] = listed_.try_emplace(term.place, false);
  if (!is_new || !value.IsObject()) return known->second;
  const JsonValue* constant = value.Find("const");
  const JsonValue* list = value.Find("enum");
  if (constant == nullptr && list == nullptr) return false;
  if (constant != nullptr && !IsScalar(*constant)) return false;
  if (list != nullptr && (!list->IsArray() || !IsPlain(*list))) return false;
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    if (IsInPlaceApplicator(value.key(i))) return false;
  }
  return known->second = true;
}

GoalId SchemaReader::ListedPart(GoalId goal) {
  const std::vector<GoalTerm> terms = goals_.terms(goal);
  GoalId part = kAnyGoal;
  for (const GoalTerm& term : terms) {
    if (IsListed(term)) part = goals_.Both(part, goals_.Of(term));
  }
  return part;
}

const ValueSet* SchemaReader::Listed(GoalId goal) {
  const std::vector<GoalTerm>& terms = goals_.terms(goal);
  if (terms.empty() || report_.failed()) return nullptr;
  const bool listed =
      std::ranges::all_of(terms, [&](const GoalTerm& term) { return IsListed(term); });
  if (!listed) return nullptr;
  const ValueSet& values = Resolve(goal);
  // Nothing follows from keywords that are relaxed.
  return values.exact && !report_.failed() ? &values : nullptr;
}

void SchemaReader::Remember(GoalId goal, ValueSet values) {
  if (goal >= resolved_.size()) resolved_.resize(goal + 1);
  if (resolved_[goal]) return;
  report_.meter().Keep(BytesOf(values));
  resolved_[goal] = std::move(values);
}

ValueSet SchemaReader::ReadTerm(const GoalTerm& term) {
  const ValueSet& values = term.constant ? ReadConstant(term.place) : ReadSchema(term.place);
  if (!term.negated) return values;
  if (auto rest = Complement(term.place, values, ValueSet::All(), "not")) return std::move(*rest);
  return ValueSet::All();
}

const ValueSet& SchemaReader::ReadConstant(PlaceId place) {
  if (const auto found = constants_.find(place); found != constants_.end()) return found->second;
  ValueSet values = MakeConstant(place);
  report_.meter().Keep(BytesOf(values));
  return constants_.emplace(place, std::move(values)).first->second;
}

ValueSet SchemaReader::MakeConstant(PlaceId place) {
  const JsonValue& value = document_.value(place);
  ValueSet values;
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      values.null = true;
      break;
    case JsonValue::Kind::kBool:
      (value.boolean() ? values.true_value : values.false_value) = true;
      break;
    case JsonValue::Kind::kInteger:
    case JsonValue::Kind::kFloat:
      if (const auto number = ParseDecimal(value.text()); number && IsWritable(*number)) {
        values.numbers = {NumberShape::Point(*number)};
      } else {
        Unsupported(place, "", kWritableNumbers, values);
      }
      break;
    case JsonValue::Kind::kString:
      values.strings = {{.tests = {tests_.Literals({std::string(value.text())})}}};
      break;
    case JsonValue::Kind::kArray: {
      const auto n = static_cast<std::uint32_t>(value.items().size());
      ArrayShape shape{.rest = kNeverGoal, .minimum = n, .maximum = n};
      for (std::uint32_t i = 0; i < n; ++i) {
        shape.prefix.push_back(goals_.Of({.place = document_.Child(place, i), .constant = true}));
      }
      values.arrays.push_back(std::move(shape));
      break;
    }
    case JsonValue::Kind::kObject: {
      const std::size_t n = value.items().size();
      ObjectShape shape{.layers = {{.others = kNeverGoal}},
                        .minimum = static_cast<std::uint32_t>(n),
                        .maximum = static_cast<std::uint32_t>(n),
                        .explicit_additional = true};
      for (std::size_t i = 0; i < n; ++i) {
        shape.properties.push_back(
            {.name = std::string(value.key(i)),
             .value = goals_.Of({.place = document_.Child(place, i), .constant = true}),
             .required = true,
             .declared = true});
      }
      values.objects.push_back(std::move(shape));
      break;
    }
  }
  return values;
}

const ValueSet& SchemaReader::ReadSchema(PlaceId place) {
  Memory& memory = schemas_[place];
  if (memory.values) return *memory.values;
  if (memory.reading) {
    report_.Fail(ConstraintErrorCode::kInvalidSchema, document_.Pointer(place), "$ref",
                 "expected references that end, found a schema that refers to itself for the same "
                 "value");
    memory.values.emplace();
    return *memory.values;
  }
  if (depth_ >= kMaxApplicators) {
    report_.Fail(ConstraintErrorCode::kTooLarge, document_.Pointer(place), "",
                 fmt::format("expected at most {} nested schemas for a value", kMaxApplicators));
  }
  ValueSet values;
  const JsonValue& schema = document_.value(place);
  if (schema.kind() == JsonValue::Kind::kBool) {
    if (schema.boolean()) values = ValueSet::All();
  } else if (!schema.IsObject()) {
    report_.Fail(ConstraintErrorCode::kInvalidSchema, document_.Pointer(place), "",
                 fmt::format("expected a schema, found {}", schema.Describe()));
  } else if (!report_.failed()) {
    memory.reading = true;
    ++depth_;
    values = ReadSchemaObject(place);
    --depth_;
    memory.reading = false;
  }
  if (report_.meter().HasEnded()) report_.NoteEnd(document_.Pointer(place));
  if (!memory.values) {
    report_.meter().Keep(BytesOf(values));
    memory.values = std::move(values);
  }
  return *memory.values;
}

ValueSet SchemaReader::ReadSchemaObject(PlaceId place) {
  const JsonValue& schema = document_.value(place);
  if (schema.Find("$ref") != nullptr && document_.RefHidesSiblings(place)) {
    return ReadReference(place, "$ref");
  }
  const std::size_t n_relaxed = report_.n_unsupported();
  for (std::size_t i = 0; i < schema.items().size(); ++i) {
    if (!IsKeyword(schema.key(i))) report_.Ignored(document_.Pointer(place), schema.key(i));
  }
  // Reads keywords in the order of the text, because it is the order of keys; assertions take the
  // place of `properties`.
  const ValueSet assertions = ReadAssertions(place);
  ValueSet values = ValueSet::All();
  bool has_asserted = false;
  const bool has_properties = schema.Find("properties") != nullptr;
  for (std::size_t i = 0; i < schema.items().size() && !report_.failed(); ++i) {
    const std::string_view keyword = schema.key(i);
    if (IsInPlaceApplicator(keyword)) {
      const ValueSet context = has_asserted ? values : algebra_.Intersect(values, assertions);
      values = algebra_.Intersect(values, ReadApplicator(place, i, context));
    } else if (!has_asserted && (!has_properties || keyword == "properties")) {
      values = algebra_.Intersect(values, assertions);
      has_asserted = true;
    }
  }
  ReadUnevaluated(place, values);
  if (report_.n_unsupported() != n_relaxed) values.exact = false;
  return values;
}

ValueSet SchemaReader::ReadApplicator(PlaceId place, std::size_t member, const ValueSet& context) {
  const JsonValue& schema = document_.value(place);
  const std::string_view keyword = schema.key(member);
  if (keyword == "$ref" || keyword == "$dynamicRef" || keyword == "$recursiveRef") {
    return ReadReference(place, keyword);
  }
  if (keyword == "not") return ReadNot(place, context);
  if (keyword == "if") return ReadCondition(place, context);
  if (keyword == "dependencies" || keyword == "dependentRequired" ||
      keyword == "dependentSchemas") {
    if (!schema.items()[member].IsObject()) {
      Invalid(place, keyword, "an object");
      return {};
    }
    ValueSet values = ValueSet::All();
    if (keyword != "dependentRequired") values = ReadDependentSchemas(place, keyword);
    if (keyword == "dependentSchemas") return values;
    return algebra_.Intersect(values, ReadDependentRequired(place, keyword));
  }
  if (!schema.items()[member].IsArray() || schema.items()[member].items().empty()) {
    Invalid(place, keyword, "an array with at least one schema");
    return {};
  }
  const PlaceId list = document_.Child(place, member);
  if (keyword == "allOf") return ReadAllOf(list);
  return keyword == "anyOf" ? ReadAnyOf(list) : ReadOneOf(place, list, context);
}

void SchemaReader::Invalid(PlaceId place, std::string_view keyword, std::string_view expected) {
  const JsonValue* found = document_.value(place).Find(keyword);
  report_.Fail(ConstraintErrorCode::kInvalidSchema, document_.Pointer(place), keyword,
               fmt::format("expected {}, found {}", expected,
                           found == nullptr ? "nothing" : found->Describe()));
}

void SchemaReader::Unsupported(PlaceId place, std::string_view keyword, std::string reason,
                               ValueSet& values) {
  report_.Unsupported(document_.Pointer(place), keyword, std::move(reason));
  values.exact = false;
}

}  // namespace fathom::constraint
