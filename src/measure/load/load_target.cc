#include "measure/load/load_target.h"

#include <utility>

#include "base/check.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "measure/load/completion_stream.h"

namespace fathom::measure::load {
namespace {

HttpFields MakeFields(const LoadTarget& target) {
  HttpFields fields = {{"Accept", "text/event-stream, application/json"}};
  if (!target.api_key.empty()) fields.emplace_back("Authorization", "Bearer " + target.api_key);
  return fields;
}

// ignore_eos: the rates of two servers are comparable only if answers have the drawn length.
HttpCall MakeCall(const LoadTarget& target, std::string path, JsonValue body) {
  body["model"] = target.model;
  body["ignore_eos"] = true;
  body["stream"] = true;
  if (target.temperature) body["temperature"] = *target.temperature;
  HttpCall call = {.method = "POST", .path = std::move(path), .fields = MakeFields(target)};
  call.fields.emplace_back("Content-Type", "application/json");
  call.body = WriteJson(body);
  return call;
}

// Makes the common part of OpenAI's two older endpoints.
HttpCall MakeOpenAiCall(const LoadTarget& target, std::string path, JsonValue body,
                        std::int64_t n_output) {
  body["max_tokens"] = n_output;
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  return MakeCall(target, std::move(path), std::move(body));
}

HttpCall MakeResponsesCall(const LoadTarget& target, const JsonValue& messages,
                           std::int64_t n_output) {
  return MakeCall(target, "/v1/responses",
                  {{"input", messages}, {"max_output_tokens", n_output}, {"store", false}});
}

HttpCall MakeMessagesCall(const LoadTarget& target, const JsonValue& messages,
                          std::int64_t n_output) {
  HttpCall call =
      MakeCall(target, "/v1/messages", {{"messages", messages}, {"max_tokens", n_output}});
  call.fields.emplace_back("anthropic-version", "2023-06-01");
  if (!target.api_key.empty()) call.fields.emplace_back("x-api-key", target.api_key);
  return call;
}

}  // namespace

HttpCall MakeChatCall(const LoadTarget& target, const JsonValue& messages, std::int64_t n_output) {
  Check(target.endpoint != LoadEndpoint::kCompletions, "messages for an endpoint of tokens");
  if (target.endpoint == LoadEndpoint::kResponses) {
    return MakeResponsesCall(target, messages, n_output);
  }
  if (target.endpoint == LoadEndpoint::kMessages) {
    return MakeMessagesCall(target, messages, n_output);
  }
  return MakeOpenAiCall(target, "/v1/chat/completions", {{"messages", messages}}, n_output);
}

HttpCall MakeCompletionCall(const LoadTarget& target, const std::vector<Token>& prompt,
                            std::int64_t n_output) {
  return MakeOpenAiCall(target, "/v1/completions", {{"prompt", prompt}}, n_output);
}

Result<std::string> FetchFirstModel(const LoadTarget& target) {
  HttpClient client(target.url, target.limits);
  const Result<HttpReply> reply =
      client.Send({.method = "GET", .path = "/v1/models", .fields = MakeFields(target)});
  if (!reply) return Unexpected(reply.error());
  if (reply->status != 200) {
    return MakeError(ErrorCode::kIo, "{}: GET /v1/models: HTTP {}: {}", target.url, reply->status,
                     FindErrorMessage(reply->body));
  }
  const Result<JsonValue> json = ParseJson(reply->body);
  const JsonValue* models = json ? json->Find("data") : nullptr;
  const JsonValue* id =
      models != nullptr && !models->items().empty() ? models->items().front().Find("id") : nullptr;
  if (id == nullptr || !id->IsString()) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: GET /v1/models: expected a list with a model, found {}", target.url,
                     FindErrorMessage(reply->body));
  }
  return std::string(id->text());
}

}  // namespace fathom::measure::load
