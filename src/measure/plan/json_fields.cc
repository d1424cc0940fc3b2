#include "measure/plan/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "json/json_value.h"

namespace fathom::plan {

JsonFields::JsonFields(const JsonValue& object, std::string path,
                       std::initializer_list<std::string_view> known)
    : reader_(object, std::move(path)) {
  for (const std::string& key : object.keys) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      reader_.Fail(key, fmt::format("one of the fields {}", fmt::join(known, ", ")),
                   fmt::format("\"{}\"", key));
    }
  }
}

const JsonValue* JsonFields::Require(std::string_view key) {
  const JsonValue* value = reader_.Find(key);
  if (value == nullptr) reader_.Fail(key, "a value", "nothing");
  return value;
}

void JsonFields::RequireNumber(std::string_view key, NumberRange range, double* value) {
  if (Require(key) != nullptr) reader_.ReadNumber(key, range, value);
}

Result<JsonValue> ParseJsonFile(std::string_view text, std::string_view file_name) {
  Result<JsonValue> json = ParseJson(text, {.python_constants = false});
  if (!json) return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, json.error().message);
  if (!json->IsObject()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found {}", file_name,
                     json->Describe());
  }
  return json;
}

}  // namespace fathom::plan
