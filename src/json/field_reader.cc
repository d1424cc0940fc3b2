#include "json/field_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/utf8.h"

namespace fathom::json {
namespace {

bool IsNumber(const JsonValue& value) {
  return value.kind() == JsonValue::Kind::kInteger || value.kind() == JsonValue::Kind::kFloat;
}

}  // namespace

std::string ExpectedInteger(IntegerRange range) {
  const IntegerRange all;
  if (range.low == all.low && range.high == all.high) return "an integer of 64 bits";
  if (range.high == all.high) return fmt::format("an integer of at least {}", range.low);
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

std::string DescribeFound(const JsonValue& value) {
  if (!IsNumber(value)) return value.Describe();
  constexpr std::size_t kShown = 40;
  return ShortenedUtf8(value.text(), kShown);
}

FieldReader::FieldReader(const JsonValue& object, std::string path,
                         std::initializer_list<std::string_view> known)
    : FieldReader(object, std::move(path)) {
  for (std::size_t i = 0; i < object.items().size() && !error_; ++i) {
    const std::string_view key = object.key(i);
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    Fail(key, fmt::format("one of the fields {}", fmt::join(known, ", ")),
         fmt::format("\"{}\"", key));
  }
}

const JsonValue* FieldReader::Find(std::string_view key) const {
  const JsonValue* value = object_.Find(key);
  return value == nullptr || value->IsNull() ? nullptr : value;
}

const JsonValue* FieldReader::FindObject(std::string_view key) {
  const JsonValue* value = Find(key);
  if (value == nullptr || value->IsObject()) return value;
  Fail(key, "an object", *value);
  return nullptr;
}

const JsonValue* FieldReader::Require(std::string_view key) {
  const JsonValue* value = Find(key);
  if (value == nullptr) Fail(key, "a value", value);
  return value;
}

void FieldReader::ReadBool(std::string_view key, bool* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  if (found->kind() != JsonValue::Kind::kBool) {
    Fail(key, "true or false", *found);
    return;
  }
  *value = found->boolean();
}

void FieldReader::ReadInteger(std::string_view key, IntegerRange range, std::int64_t* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  *value = ToInteger(*found, std::string(key), range).value_or(*value);
}

void FieldReader::ReadNumber(std::string_view key, NumberRange range, double* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  *value = ToNumber(*found, std::string(key), range).value_or(*value);
}

void FieldReader::ReadString(std::string_view key, std::string* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  if (!found->IsString()) {
    Fail(key, "a string", *found);
    return;
  }
  *value = found->text();
}

std::optional<bool> FieldReader::FindFlag(std::string_view key) {
  if (Find(key) == nullptr) return std::nullopt;
  return Flag(key);
}

bool FieldReader::Flag(std::string_view key) {
  bool value = false;
  ReadBool(key, &value);
  return value;
}

std::string FieldReader::Text(std::string_view key) {
  std::string value;
  ReadString(key, &value);
  return value;
}

std::string FieldReader::RequireText(std::string_view key) {
  std::string text = Text(key);
  if (text.empty()) Fail(key, "a string that is not empty", Find(key));
  return text;
}

void FieldReader::RequireNumber(std::string_view key, NumberRange range, double* value) {
  if (Require(key) != nullptr) ReadNumber(key, range, value);
}

std::optional<std::int64_t> FieldReader::ToInteger(const JsonValue& value, const std::string& path,
                                                   IntegerRange range) {
  const std::optional<std::int64_t> number = value.AsInteger();
  if (!number || *number < range.low || *number > range.high) {
    Fail(path, ExpectedInteger(range), value);
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::ToNumber(const JsonValue& value, const std::string& path,
                                            NumberRange range) {
  const std::optional<double> number = value.AsDouble();
  if (!number || !(*number >= range.low && *number <= range.high)) {  // also refuses NaN
    Fail(path, fmt::format("a number from {} to {}", range.low, range.high), value);
    return std::nullopt;
  }
  return number;
}

void FieldReader::Fail(std::string_view path, std::string_view expected, const JsonValue& found) {
  FailText(path, expected, DescribeFound(found));
}

void FieldReader::Fail(std::string_view path, std::string_view expected, const JsonValue* found) {
  FailText(path, expected, found == nullptr ? "nothing" : DescribeFound(*found));
}

std::string FieldReader::PathTo(std::string_view key) const {
  return fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key);
}

void FieldReader::FailText(std::string_view path, std::string_view expected,
                           std::string_view found) {
  Fail(Error{ErrorCode::kInvalidArgument,
             fmt::format("{}: expected {}, found {}", PathTo(path), expected,
                         ShortenedUtf8(found, kQuotedBytes))});
}

void FieldReader::Fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<JsonValue> ParseJsonObject(std::string_view text, std::string_view file_name) {
  Result<JsonValue> json = ParseJson(text, {.python_constants = false});
  if (!json) return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, json.error().message);
  if (!json->IsObject()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found {}", file_name,
                     json->Describe());
  }
  return json;
}

}  // namespace fathom::json
