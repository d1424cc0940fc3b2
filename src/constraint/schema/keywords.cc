#include "constraint/schema/keywords.h"

#include <algorithm>
#include <initializer_list>

namespace fathom::constraint {
namespace {

bool IsOneOf(std::string_view keyword, std::initializer_list<std::string_view> keywords) {
  return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
}

}  // namespace

bool IsAnnotation(std::string_view keyword) {
  return IsOneOf(keyword, {"$comment", "default", "deprecated", "description", "examples",
                           "readOnly", "title", "writeOnly"});
}

bool IsAssertion(std::string_view keyword) {
  return IsOneOf(keyword, {"const", "enum", "exclusiveMaximum", "exclusiveMinimum", "format",
                           "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
                           "multipleOf", "pattern", "required", "type"});
}

bool IsInPlaceApplicator(std::string_view keyword) {
  return IsOneOf(keyword, {"$dynamicRef", "$recursiveRef", "$ref", "allOf", "anyOf", "dependencies",
                           "dependentRequired", "dependentSchemas", "if", "not", "oneOf"});
}

SubschemaKind KindOfSubschemas(std::string_view keyword) {
  if (IsOneOf(keyword,
              {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if",
               "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"})) {
    return SubschemaKind::kOne;
  }
  if (IsOneOf(keyword, {"allOf", "anyOf", "oneOf", "prefixItems"})) return SubschemaKind::kList;
  if (IsOneOf(keyword, {"$defs", "definitions", "dependencies", "dependentSchemas",
                        "patternProperties", "properties"})) {
    return SubschemaKind::kMap;
  }
  return keyword == "items" ? SubschemaKind::kOneOrList : SubschemaKind::kNone;
}

bool IsKeyword(std::string_view keyword) {
  return IsAnnotation(keyword) || IsAssertion(keyword) || IsInPlaceApplicator(keyword) ||
         KindOfSubschemas(keyword) != SubschemaKind::kNone ||
         IsOneOf(keyword,
                 {"$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary",
                  "contentEncoding", "contentMediaType", "example", "id", "maxContains",
                  "maxProperties", "minContains", "minProperties", "uniqueItems", "x-fathom"});
}

}  // namespace fathom::constraint
