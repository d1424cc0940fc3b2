#include "runtime/generation_config.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/file.h"

namespace fathom {
namespace {

using nlohmann::json;

struct Range {
  double low;
  double high;
  bool low_allowed;
};

// Leaves `value` alone if the field is missing or null.
Status ReadNumber(const json& object, const char* field, Range range, std::string_view file_name,
                  double& value) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) {
    return {};
  }
  const double number = found->is_number() ? found->get<double>() : -1;
  if (!(number <= range.high) ||
      !(number > range.low || (range.low_allowed && number == range.low))) {
    return MakeError(ErrorCode::kInvalidData, "{}: {}: expected a number {} {} to {}, found {}",
                     file_name, field, range.low_allowed ? "from" : "above", range.low, range.high,
                     found->dump().substr(0, 80));
  }
  value = number;
  return {};
}

Status ReadEosTokens(const json& object, std::string_view file_name, std::vector<Token>& tokens) {
  const auto found = object.find("eos_token_id");
  if (found == object.end() || found->is_null()) {
    return {};
  }
  for (const json& id : found->is_array() ? *found : json::array({*found})) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<Token>::max()) {
      return MakeError(ErrorCode::kInvalidData,
                       "{}: eos_token_id: expected a token id or a list of them, found {}",
                       file_name, found->dump().substr(0, 80));
    }
    tokens.push_back(id.get<Token>());
  }
  return {};
}

}  // namespace

SamplingParameters GenerationConfig::Sampling() const {
  return {.temperature = temperature, .top_p = top_p};
}

Result<GenerationConfig> ParseGenerationConfig(std::string_view text, std::string_view file_name) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return MakeError(ErrorCode::kInvalidData, "{}: expected a JSON object, found {}", file_name,
                     object.is_discarded() ? "text that is not JSON" : object.type_name());
  }
  GenerationConfig config;
  Status status = ReadNumber(object, "temperature", {0, 2, true}, file_name, config.temperature);
  if (!status) return Unexpected(status.error());
  status = ReadNumber(object, "top_p", {0, 1, false}, file_name, config.top_p);
  if (!status) return Unexpected(status.error());
  status = ReadEosTokens(object, file_name, config.eos_tokens);
  if (!status) return Unexpected(status.error());
  const auto do_sample = object.find("do_sample");
  if (do_sample != object.end() && do_sample->is_boolean() && !do_sample->get<bool>()) {
    config.temperature = 0;
  }
  return config;
}

Result<GenerationConfig> ReadGenerationConfig(const std::filesystem::path& directory) {
  const std::string path = directory / "generation_config.json";
  const Result<std::string> text = ReadFile(path);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) {
      return GenerationConfig();
    }
    return Unexpected(text.error());
  }
  return ParseGenerationConfig(*text, path);
}

}  // namespace fathom
