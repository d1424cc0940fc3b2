#include "server/openapi_document.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "engine/sampling_fields.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "server/embedded_files.h"

namespace fathom {
namespace {

// The schemas of the requests that generate, or of the parts that contain their sampling.
constexpr std::string_view kGenerationRequests[] = {"ChatCompletionRequest", "CompletionRequest",
                                                    "ResponsesRequest", "MessagesRequest",
                                                    "OllamaOptions"};

JsonValue FieldSchema(const SamplingField& field) {
  if (field.n_tokens == nullptr) {
    return {{"type", JsonValue::Array({"number", "null"})},
            {"minimum", field.low},
            {"maximum", field.high}};
  }
  // -1 and 0 mean off; a number above the vocabulary means all of it.
  return {{"type", JsonValue::Array({"integer", "null"})},
          {"minimum", -1},
          {"maximum", std::numeric_limits<std::int64_t>::max()}};
}

JsonValue DocumentWithSampling() {
  Result<JsonValue> document = ParseJson(OpenApiJson());
  Check(document.has_value(), "openapi.json is JSON");
  JsonValue& schemas = (*document)["components"]["schemas"];
  for (const std::string_view request : kGenerationRequests) {
    JsonValue& properties = schemas[request]["properties"];
    for (const SamplingField& field : SamplingFields()) {
      properties.Add(field.name, FieldSchema(field));
    }
  }
  return *std::move(document);
}

}  // namespace

std::string OpenApiDocument() { return WriteJson(DocumentWithSampling()); }

std::string OpenApiDocument(const RequestLimits& limits) {
  JsonValue document = DocumentWithSampling();
  JsonValue& schemas = document["components"]["schemas"];
  schemas["TokenId"]["maximum"] = limits.vocab_size - 1;
  schemas["TokenIdText"]["pattern"] = NumbersUpTo(limits.vocab_size - 1);
  schemas["ChoiceCount"]["maximum"] = limits.max_choices;
  return WriteJson(document);
}

std::string NumbersUpTo(std::int64_t last) {
  const std::string digits = fmt::format("{}", last);
  // Shorter numbers; then numbers with the first i digits of the last one and a smaller next digit.
  std::string shorter = "0";
  if (digits.size() > 1) shorter += fmt::format("|[1-9][0-9]{{0,{}}}", digits.size() - 2);
  std::string expression = "^(" + shorter;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char first = i == 0 ? '1' : '0';
    const bool is_end = i + 1 == digits.size();
    const char highest = static_cast<char>(is_end ? digits[i] : digits[i] - 1);
    if (highest < first) continue;
    expression += fmt::format("|{}[{}-{}]", digits.substr(0, i), first, highest);
    if (!is_end) expression += fmt::format("[0-9]{{{}}}", digits.size() - i - 1);
  }
  return expression + ")$";
}

}  // namespace fathom
