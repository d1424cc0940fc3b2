#include "server/openapi_document.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/sampling_fields.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "server/embedded_files.h"

namespace fathom::server {
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

// Returns the content of a body with the schema of that name.
JsonValue SchemaContent(std::string_view schema) {
  return {{"schema", {{"$ref", fmt::format("#/components/schemas/{}", schema)}}}};
}

JsonValue EventStreamContent() {
  return {{"schema",
           {{"type", "object"},
            {"properties", {{"event", {{"type", "string"}}}, {"data", {{"type", "string"}}}}}}}};
}

JsonValue WholeAnswer(const JsonValue& answer) {
  const JsonValue schema = SchemaContent(answer.FindText("schema"));
  JsonValue content = {{"application/json", schema}};
  const std::string_view stream = answer.FindText("stream");
  if (!stream.empty())
    content[stream] = stream == "text/event-stream" ? EventStreamContent() : schema;
  return {{"description", answer.FindText("description")}, {"content", std::move(content)}};
}

// Writes out the fields of openapi.json that name what operations have in common:
//   request  the schema of the JSON body
//   answer   the schema of the answer with status 200 and, if it can be streamed, the stream's type
//   errors   the status of each error, by the API in whose form it is written
JsonValue WholeOperation(const JsonValue& operation) {
  JsonValue whole = JsonValue::Object();
  for (std::size_t i = 0; i < operation.items().size(); ++i) {
    const std::string_view key = operation.key(i);
    const JsonValue& value = operation.items()[i];
    if (key == "request") {
      whole["requestBody"] = {{"required", true},
                              {"content", {{"application/json", SchemaContent(value.text())}}}};
    } else if (key == "answer") {
      whole["responses"]["200"] = WholeAnswer(value);
    } else if (key == "errors") {
      for (const JsonValue& status : value.items().front().items()) {
        whole["responses"][status.text()] = {
            {"$ref", fmt::format("#/components/responses/{}{}", value.key(0), status.text())}};
      }
    } else {
      whole.Add(key, value);
    }
  }
  return whole;
}

// Returns the responses with errors, such as "Error400". `texts`: their descriptions by API and
// status; Anthropic's API has the errors of OpenAI's, too.
JsonValue ErrorResponses(const JsonValue& texts) {
  JsonValue responses = JsonValue::Object();
  for (std::size_t i = 0; i < texts.items().size(); ++i) {
    const std::string api(texts.key(i));
    JsonValue errors = api == "Anthropic" ? *texts.Find("Error") : JsonValue::Object();
    errors.Update(texts.items()[i]);
    const JsonValue schema = SchemaContent(api == "Error" ? api : api + "Error");
    for (std::size_t s = 0; s < errors.items().size(); ++s) {
      responses.Add(
          fmt::format("{}{}", api, errors.key(s)),
          {{"description", errors.items()[s]}, {"content", {{"application/json", schema}}}});
    }
  }
  return responses;
}

}  // namespace

std::string OpenApiDocument(const RequestLimits& limits) {
  Result<JsonValue> document = ParseJson(OpenApiJson());
  Check(document.has_value(), "openapi.json is JSON");
  for (JsonValue& path : (*document)["paths"].items()) {
    for (JsonValue& operation : path.items()) {
      if (operation.IsObject()) operation = WholeOperation(operation);
    }
  }
  JsonValue& components = (*document)["components"];
  components["responses"] = ErrorResponses(components["responses"]);
  JsonValue& schemas = components["schemas"];
  for (const std::string_view request : kGenerationRequests) {
    JsonValue& properties = schemas[request]["properties"];
    for (const SamplingField& field : SamplingFields()) {
      properties.Add(field.name, FieldSchema(field));
    }
  }
  schemas["TokenId"]["maximum"] = limits.vocab_size - 1;
  schemas["TokenIdText"]["pattern"] = NumbersUpTo(limits.vocab_size - 1);
  schemas["ChoiceCount"]["maximum"] = limits.max_choices;
  return WriteJson(*document);
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

}  // namespace fathom::server
