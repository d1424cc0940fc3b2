// Schemas with the same keywords have one goal. Most properties of large schemas are like others,
// such as {"type":"string"} with another description.
#include <algorithm>

#include "constraint/schema/schema_reader.h"
#include "constraint/schema/string_formats.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

constexpr std::string_view kScalarKeywords[] = {"const",
                                                "enum",
                                                "exclusiveMaximum",
                                                "exclusiveMinimum",
                                                "maxItems",
                                                "maxLength",
                                                "maximum",
                                                "minItems",
                                                "minLength",
                                                "minimum",
                                                "multipleOf",
                                                "pattern",
                                                "required",
                                                "type",
                                                "format"};
constexpr std::string_view kApplyingKeywords[] = {
    "$dynamicRef", "$id", "$recursiveRef", "$ref", "contentEncoding", "contentMediaType", "id"};

template <std::size_t n>
bool IsIn(const std::string_view (&list)[n], std::string_view keyword) {
  return std::find(std::begin(list), std::end(list), keyword) != std::end(list);
}

bool IsPlain(const JsonValue& value) {
  const auto is_scalar = [](const JsonValue& of) { return !of.IsArray() && !of.IsObject(); };
  return is_scalar(value) ||
         (value.IsArray() && std::all_of(value.items().begin(), value.items().end(), is_scalar));
}

// True if reading the keyword reports, at the pointer of its schema, that it cannot be asserted.
bool IsReported(StringPredicates& tests, std::string_view keyword, const JsonValue& value) {
  if (keyword == "pattern") return !value.IsString() || !tests.Pattern(value.text());
  if (keyword != "format" || !value.IsString()) return false;
  const std::string_view name = value.text();
  return name != "int32" && name != "int64" && FindStringFormat(name) == nullptr;
}

}  // namespace

PlaceId SchemaReader::FirstOfEqual(PlaceId schema) {
  const JsonValue& value = document_.value(schema);
  if (!value.IsObject()) return schema;
  constexpr std::size_t kMaxMembers = 16;
  if (value.items().size() > kMaxMembers) return schema;
  std::string key;
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    const std::string_view keyword = value.key(i);
    const JsonValue& item = value.items()[i];
    if (IsIn(kApplyingKeywords, keyword)) return schema;
    if (!IsIn(kScalarKeywords, keyword)) {
      if (!IsAnnotation(keyword)) return schema;
      continue;
    }
    if (!IsPlain(item) || IsReported(tests_, keyword, item)) return schema;
    key += keyword;
    key += WriteJson(item);
  }
  return first_of_equal_.try_emplace(std::move(key), schema).first->second;
}

}  // namespace fathom
