#include "checkpoint/config_fields.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/problems.h"

namespace fathom {
namespace {

using Json = nlohmann::json;

// A configuration has 2 KB. The parser and its tree use no recursion, so depth needs no limit.
constexpr std::size_t kLongestText = std::size_t{16} << 20;

bool IsInteger(const Json& value) {
  // Unsigned values above the signed range would wrap in get<int64_t>.
  return value.is_number_integer() &&
         (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() <=
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

std::string DescribeValue(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return fmt::format("a list of {}", value.size());
    case Json::value_t::string:
      return Quoted(value.get_ref<const std::string&>());
    case Json::value_t::null:
      return "nothing";
    default:  // a number or a truth value
      return value.dump();
  }
}

}  // namespace

class ConfigFields::Impl {
 public:
  explicit Impl(Json parsed) : root(std::move(parsed)) {}

  // nullptr if missing or null.
  const Json* Find(std::string_view name) const {
    const Json* value = &root;
    while (true) {
      const std::size_t dot = name.find('.');
      const auto found = value->find(std::string(name.substr(0, dot)));
      if (!value->is_object() || found == value->end() || found->is_null()) {
        return nullptr;
      }
      value = &*found;
      if (dot == std::string_view::npos) {
        return value;
      }
      name.remove_prefix(dot + 1);
    }
  }

  Json root;
  std::vector<Error> problems;
};

Result<ConfigFields> ConfigFields::Parse(std::string_view text, std::string_view file_name) {
  if (text.size() > kLongestText) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected at most {} bytes, found {}", file_name,
                     kLongestText, text.size());
  }
  Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found invalid JSON",
                     file_name);
  }
  if (!root.is_object()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found {}", file_name,
                     DescribeValue(root));
  }
  return ConfigFields(std::make_unique<Impl>(std::move(root)));
}

ConfigFields::ConfigFields(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConfigFields::ConfigFields(ConfigFields&&) noexcept = default;
ConfigFields& ConfigFields::operator=(ConfigFields&&) noexcept = default;
ConfigFields::~ConfigFields() = default;

bool ConfigFields::Has(std::string_view name) const { return impl_->Find(name) != nullptr; }

std::int64_t ConfigFields::Integer(std::string_view name, Range<std::int64_t> range,
                                   std::optional<std::int64_t> fallback) {
  const Json* value = impl_->Find(name);
  if (value == nullptr && fallback) {
    return *fallback;
  }
  if (value != nullptr && IsInteger(*value)) {
    const auto integer = value->get<std::int64_t>();
    if (integer >= range.lowest && integer <= range.highest) {
      return integer;
    }
  }
  AddProblem(name,
             range.lowest == range.highest
                 ? fmt::to_string(range.lowest)
                 : fmt::format("an integer from {} to {}", range.lowest, range.highest),
             Describe(name));
  return 0;
}

float ConfigFields::Number(std::string_view name, Range<float> range,
                           std::optional<float> fallback) {
  const Json* value = impl_->Find(name);
  if (value == nullptr && fallback) {
    return *fallback;
  }
  if (value != nullptr && value->is_number()) {
    const auto number = value->get<double>();
    if (number >= static_cast<double>(range.lowest) &&
        number <= static_cast<double>(range.highest)) {
      return static_cast<float>(number);
    }
  }
  AddProblem(name, fmt::format("a number from {:g} to {:g}", range.lowest, range.highest),
             Describe(name));
  return 0;
}

std::vector<std::int64_t> ConfigFields::Integers(std::string_view name, Range<std::int64_t> range,
                                                 std::int64_t longest) {
  const std::string expected =
      fmt::format("a list of 1 to {} integers from {} to {}", longest, range.lowest, range.highest);
  const Json* value = impl_->Find(name);
  if (value == nullptr || !value->is_array() || value->empty() ||
      value->size() > static_cast<std::size_t>(longest)) {
    AddProblem(name, expected, Describe(name));
    return {};
  }
  std::vector<std::int64_t> integers;
  for (const Json& entry : *value) {
    const std::int64_t integer = IsInteger(entry) ? entry.get<std::int64_t>() : range.lowest;
    if (!IsInteger(entry) || integer < range.lowest || integer > range.highest) {
      AddProblem(name, expected,
                 fmt::format("{} at position {}", DescribeValue(entry), integers.size()));
      return {};
    }
    integers.push_back(integer);
  }
  return integers;
}

std::optional<std::size_t> ConfigFields::Choice(std::string_view name,
                                                std::initializer_list<std::string_view> known) {
  if (!Has(name)) {
    return std::nullopt;
  }
  const std::optional<std::string> text = Text(name);
  std::string expected;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (text == known.begin()[i]) {
      return i;
    }
    expected += fmt::format("{}\"{}\"", i == 0 ? "" : " or ", known.begin()[i]);
  }
  AddProblem(name, expected, Describe(name));
  return std::nullopt;
}

void ConfigFields::Require(std::string_view name, bool only) {
  const Json* value = impl_->Find(name);
  if (value != nullptr && *value != Json(only)) {
    AddProblem(name, only ? "true" : "false", Describe(name));
  }
}

std::string ConfigFields::Describe(std::string_view name) const {
  const Json* value = impl_->Find(name);
  return value == nullptr ? "nothing" : DescribeValue(*value);
}

std::optional<std::string> ConfigFields::Text(std::string_view name) const {
  const Json* value = impl_->Find(name);
  if (value == nullptr || !value->is_string()) {
    return std::nullopt;
  }
  return value->get<std::string>();
}

void ConfigFields::AddProblem(std::string_view name, std::string_view expected,
                              std::string_view found) {
  fathom::AddProblem(impl_->problems, "{}: expected {}, found {}", name, expected, found);
}

std::span<const Error> ConfigFields::problems() const { return impl_->problems; }

}  // namespace fathom
