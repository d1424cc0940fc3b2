#include "api/common/query_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/parse_text.h"
#include "base/utf8.h"
#include "json/json_writer.h"

namespace fathom::api {

QueryReader::QueryReader(std::string_view query) {
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    const std::string_view name = field.substr(0, field.find('='));
    fields_.push_back({name, field.substr(std::min(name.size() + 1, field.size()))});
  }
}

std::optional<std::string> QueryReader::Find(std::string_view key) const {
  const auto found = std::ranges::find(fields_, key, &Field::name);
  return found == fields_.end() ? std::nullopt : std::optional(std::string(found->value));
}

void QueryReader::CheckList(std::string_view key, std::span<const std::string_view> texts) {
  for (const auto& [name, value] : fields_) {
    if (!name.starts_with(key)) continue;
    const std::string_view brackets = name.substr(key.size());
    const bool is_of_list =
        brackets.empty() || brackets == "[]" || brackets == "%5B%5D" || brackets == "%5b%5d";
    if (is_of_list && std::ranges::find(texts, value) == texts.end()) {
      Fail(key, fmt::format("one of {}", fmt::join(texts, ", ")), value);
    }
  }
}

std::string QueryReader::OneOf(std::string_view key,
                               std::initializer_list<std::string_view> texts) {
  std::optional<std::string> found = Find(key);
  if (!found) return std::string(*texts.begin());
  if (std::find(texts.begin(), texts.end(), *found) == texts.end()) {
    Fail(key, fmt::format("{}", fmt::join(texts, " or ")), *found);
  }
  return *std::move(found);
}

std::int64_t QueryReader::Integer(std::string_view key, IntegerRange range,
                                  std::int64_t otherwise) {
  const std::optional<std::string> found = Find(key);
  if (!found) return otherwise;
  const std::optional<std::int64_t> value = ParseNumber<std::int64_t>(*found);
  if (value && *value >= range.low && *value <= range.high) return *value;
  Fail(key, ExpectedInteger(range), *found);
  return otherwise;
}

void QueryReader::Fail(std::string_view key, std::string_view expected, std::string_view found) {
  if (error_) return;
  error_ = Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: expected {}, found {}", key, expected,
                             PythonJsonString(ShortenedUtf8(found, kQuotedBytes)))};
}

}  // namespace fathom::api
