#include "checkpoint/config_fields.h"

#include <algorithm>

#include "base/git_lfs.h"
#include "checkpoint/problems.h"

namespace fathom::checkpoint {
namespace {

constexpr std::size_t kLongestText = std::size_t{16} << 20;  // a configuration has 2 KB

// Returns none for 4096.0.
std::optional<std::int64_t> IntegerIn(const JsonValue& value) {
  return value.kind() == JsonValue::Kind::kInteger ? value.AsInteger() : std::nullopt;
}

std::string DescribeValue(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kObject:
      return "an object";
    case JsonValue::Kind::kArray:
      return fmt::format("a list of {}", value.items().size());
    case JsonValue::Kind::kString:
      return Quoted(value.text());
    case JsonValue::Kind::kNull:
      return "nothing";
    case JsonValue::Kind::kBool:
      return value.boolean() ? "true" : "false";
    default:
      return std::string(value.text());
  }
}

}  // namespace

Result<ConfigFields> ConfigFields::Parse(std::string_view text, std::string_view file_name) {
  if (text.size() > kLongestText) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected at most {} bytes, found {}", file_name,
                     kLongestText, text.size());
  }
  if (IsGitLfsPointer(text)) {
    return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, kGitLfsPointer);
  }
  Result<JsonValue> root = ParseJson(text, {.python_constants = false});
  if (!root) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found invalid JSON ({})",
                     file_name, root.error().message);
  }
  if (!root->IsObject()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found {}", file_name,
                     DescribeValue(*root));
  }
  return ConfigFields(*std::move(root));
}

const JsonValue* ConfigFields::Find(std::string_view name) const {
  const JsonValue* value = &root_;
  while (value != nullptr && !name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    value = value->Find(name.substr(0, dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return value == nullptr || value->IsNull() ? nullptr : value;
}

bool ConfigFields::Has(std::string_view name) const { return Find(name) != nullptr; }

std::int64_t ConfigFields::Integer(std::string_view name, Range<std::int64_t> range,
                                   std::optional<std::int64_t> fallback) {
  const JsonValue* value = Find(name);
  if (value == nullptr && fallback) return *fallback;
  const std::optional<std::int64_t> integer = value == nullptr ? std::nullopt : IntegerIn(*value);
  if (integer && *integer >= range.lowest && *integer <= range.highest) return *integer;
  AddProblem(name,
             range.lowest == range.highest
                 ? fmt::to_string(range.lowest)
                 : fmt::format("an integer from {} to {}", range.lowest, range.highest),
             Describe(name));
  return 0;
}

float ConfigFields::Number(std::string_view name, Range<float> range,
                           std::optional<float> fallback) {
  const JsonValue* value = Find(name);
  if (value == nullptr && fallback) return *fallback;
  const std::optional<double> number = value == nullptr ? std::nullopt : value->AsDouble();
  if (number && *number >= static_cast<double>(range.lowest) &&
      *number <= static_cast<double>(range.highest)) {
    return static_cast<float>(*number);
  }
  AddProblem(name, fmt::format("a number from {:g} to {:g}", range.lowest, range.highest),
             Describe(name));
  return 0;
}

std::vector<std::int64_t> ConfigFields::Integers(std::string_view name, Range<std::int64_t> range,
                                                 std::int64_t longest) {
  const std::string expected =
      fmt::format("a list of 1 to {} integers from {} to {}", longest, range.lowest, range.highest);
  const JsonValue* value = Find(name);
  if (value == nullptr || !value->IsArray() || value->items().empty() ||
      value->items().size() > static_cast<std::size_t>(longest)) {
    AddProblem(name, expected, Describe(name));
    return {};
  }
  std::vector<std::int64_t> integers;
  for (const JsonValue& entry : value->items()) {
    const std::optional<std::int64_t> integer = IntegerIn(entry);
    if (!integer || *integer < range.lowest || *integer > range.highest) {
      AddProblem(name, expected,
                 fmt::format("{} at position {}", DescribeValue(entry), integers.size()));
      return {};
    }
    integers.push_back(*integer);
  }
  return integers;
}

std::map<std::string, std::vector<std::int64_t>, std::less<>> ConfigFields::AllIntegers() const {
  std::map<std::string, std::vector<std::int64_t>, std::less<>> all;
  for (std::size_t i = 0; i < root_.items().size(); ++i) {
    const JsonValue& value = root_.items()[i];
    const std::span<const JsonValue> entries =
        value.IsArray() ? value.items() : std::span(&value, 1);
    std::vector<std::int64_t> integers;
    for (const JsonValue& entry : entries) {
      if (const std::optional<std::int64_t> integer = IntegerIn(entry))
        integers.push_back(*integer);
    }
    if (!integers.empty() && integers.size() == entries.size()) {
      all.emplace(root_.key(i), std::move(integers));
    }
  }
  return all;
}

std::optional<std::size_t> ConfigFields::Choice(std::string_view name,
                                                std::initializer_list<std::string_view> known) {
  if (!Has(name)) return std::nullopt;
  const std::optional<std::string> text = Text(name);
  std::string expected;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (text == known.begin()[i]) return i;
    expected += fmt::format("{}\"{}\"", i == 0 ? "" : " or ", known.begin()[i]);
  }
  AddProblem(name, expected, Describe(name));
  return std::nullopt;
}

void ConfigFields::Require(std::string_view name, bool only) {
  const JsonValue* value = Find(name);
  if (value != nullptr && (value->kind() != JsonValue::Kind::kBool || value->boolean() != only)) {
    AddProblem(name, only ? "true" : "false", Describe(name));
  }
}

std::string ConfigFields::Describe(std::string_view name) const {
  const JsonValue* value = Find(name);
  return value == nullptr ? "nothing" : DescribeValue(*value);
}

std::optional<std::string> ConfigFields::Text(std::string_view name) const {
  const JsonValue* value = Find(name);
  if (value == nullptr || !value->IsString()) return std::nullopt;
  return std::string(value->text());
}

void ConfigFields::AddProblem(std::string_view name, std::string_view expected,
                              std::string_view found) {
  checkpoint::AddProblem(problems_, "{}: expected {}, found {}", name, expected, found);
}

}  // namespace fathom::checkpoint
