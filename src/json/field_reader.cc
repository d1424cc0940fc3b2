#include "json/field_reader.h"

#include <fmt/format.h>

#include <utility>

namespace fathom {
namespace {

bool IsNumber(const JsonValue& value) {
  return value.kind == JsonValue::Kind::kInteger || value.kind == JsonValue::Kind::kFloat;
}

std::string ExpectedInteger(IntegerRange range) {
  const IntegerRange all;
  if (range.low == all.low && range.high == all.high) return "an integer of 64 bits";
  if (range.high == all.high) return fmt::format("an integer of at least {}", range.low);
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

}  // namespace

std::string DescribeFound(const JsonValue& value) {
  if (!IsNumber(value)) return value.Describe();
  constexpr std::size_t kShown = 40;
  if (value.text.size() <= kShown) return value.text;
  return fmt::format("{}...", std::string_view(value.text).substr(0, kShown));
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

void FieldReader::ReadBool(std::string_view key, bool* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  if (found->kind != JsonValue::Kind::kBool) {
    Fail(key, "true or false", *found);
    return;
  }
  *value = found->boolean;
}

void FieldReader::ReadInteger(std::string_view key, IntegerRange range, std::int64_t* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  *value = IntegerOf(*found, std::string(key), range).value_or(*value);
}

void FieldReader::ReadNumber(std::string_view key, NumberRange range, double* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  *value = NumberOf(*found, std::string(key), range).value_or(*value);
}

void FieldReader::ReadString(std::string_view key, std::string* value) {
  const JsonValue* found = Find(key);
  if (found == nullptr) return;
  if (!found->IsString()) {
    Fail(key, "a string", *found);
    return;
  }
  *value = found->text;
}

std::optional<std::int64_t> FieldReader::IntegerOf(const JsonValue& value, const std::string& path,
                                                   IntegerRange range) {
  const std::optional<std::int64_t> number = value.AsInteger();
  if (!number || *number < range.low || *number > range.high) {
    Fail(path, ExpectedInteger(range), value);
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::NumberOf(const JsonValue& value, const std::string& path,
                                            NumberRange range) {
  const std::optional<double> number = value.AsDouble();
  if (!number || !(*number >= range.low && *number <= range.high)) {  // so that NaN is refused
    Fail(path, fmt::format("a number from {} to {}", range.low, range.high), value);
    return std::nullopt;
  }
  return number;
}

void FieldReader::Fail(std::string_view path, std::string_view expected, const JsonValue& found) {
  FailText(path, expected, DescribeFound(found));
}

void FieldReader::FailText(std::string_view path, std::string_view expected,
                           std::string_view found) {
  Fail(Error{ErrorCode::kInvalidArgument,
             fmt::format("{}{}{}: expected {}, found {}", path_, path_.empty() ? "" : ".", path,
                         expected, found)});
}

void FieldReader::Fail(Error error) {
  if (!error_) error_ = std::move(error);
}

}  // namespace fathom
