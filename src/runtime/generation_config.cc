#include "runtime/generation_config.h"

#include <limits>
#include <string>

#include "base/file.h"
#include "json/field_reader.h"

namespace fathom::runtime {
namespace {

void ReadEosTokens(FieldReader& reader, std::vector<Token>* tokens) {
  const JsonValue* ids = reader.Find("eos_token_id");
  if (ids == nullptr) return;
  for (const JsonValue& id : ids->IsArray() ? ids->items() : std::span(ids, 1)) {
    const std::optional<std::int64_t> token = id.AsInteger();
    if (!token || id.kind() != JsonValue::Kind::kInteger || *token < 0 ||
        *token > std::numeric_limits<Token>::max()) {
      return reader.Fail("eos_token_id", "a token id or a list of them", id);
    }
    tokens->push_back(static_cast<Token>(*token));
  }
}

}  // namespace

Result<GenerationConfig> ParseGenerationConfig(std::string_view text, std::string_view file_name) {
  const Result<JsonValue> json = ParseJsonObject(text, file_name);
  if (!json) return Unexpected(json.error());
  GenerationConfig config;
  FieldReader reader(*json);
  reader.ReadNumber("temperature", {0, 2}, &config.temperature);
  reader.ReadNumber("top_p", {0, 1}, &config.top_p);
  reader.ReadBool("thinks", &config.thinks);
  config.description = reader.Text("description");
  ReadEosTokens(reader, &config.eos_tokens);
  if (reader.error()) {
    return MakeError(ErrorCode::kInvalidData, "{}: {}", file_name, reader.error()->message);
  }
  const JsonValue* do_sample = reader.Find("do_sample");
  if (do_sample != nullptr && do_sample->kind() == JsonValue::Kind::kBool &&
      !do_sample->boolean()) {
    config.temperature = 0;
  }
  return config;
}

Result<GenerationConfig> ReadGenerationConfig(const std::filesystem::path& directory,
                                              std::int64_t vocab_size) {
  const std::string path = directory / "generation_config.json";
  const Result<std::string> text = ReadFile(path, kMostSettingsBytes);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return GenerationConfig();
    return Unexpected(text.error());
  }
  Result<GenerationConfig> config = ParseGenerationConfig(*text, path);
  if (!config) return config;
  for (const Token token : config->eos_tokens) {
    if (token >= vocab_size) {
      return MakeError(ErrorCode::kInvalidData,
                       "{}: eos_token_id: expected tokens below the vocab_size {} of config.json, "
                       "found {}",
                       path, vocab_size, token);
    }
  }
  return config;
}

}  // namespace fathom::runtime
