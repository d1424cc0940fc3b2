#include "load/load_target.h"

#include <nlohmann/json.hpp>

#include "load/completion_stream.h"
#include "prompt/json_value.h"

namespace fathom::load {
namespace {

using nlohmann::ordered_json;

HttpFields FieldsOf(const LoadTarget& target) {
  HttpFields fields = {{"Accept", "text/event-stream, application/json"}};
  if (!target.api_key.empty()) fields.emplace_back("Authorization", "Bearer " + target.api_key);
  return fields;
}

// ignore_eos: an answer has the length that was drawn, or rates of two servers mean nothing.
HttpCall MakeCall(const LoadTarget& target, std::string path, ordered_json body,
                  std::int64_t n_output) {
  body["model"] = target.model;
  body["max_tokens"] = n_output;
  body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  if (target.temperature) body["temperature"] = *target.temperature;
  HttpCall call = {.method = "POST", .path = std::move(path), .fields = FieldsOf(target)};
  call.fields.emplace_back("Content-Type", "application/json");
  call.body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return call;
}

}  // namespace

HttpCall MakeChatCall(const LoadTarget& target, const ordered_json& messages,
                      std::int64_t n_output) {
  ordered_json body;
  body["messages"] = messages;
  return MakeCall(target, "/v1/chat/completions", std::move(body), n_output);
}

HttpCall MakeCompletionCall(const LoadTarget& target, const std::vector<Token>& prompt,
                            std::int64_t n_output) {
  ordered_json body;
  body["prompt"] = prompt;
  return MakeCall(target, "/v1/completions", std::move(body), n_output);
}

Result<std::string> FirstModelOf(const LoadTarget& target) {
  HttpClient client(target.url, target.limits);
  const Result<HttpReply> reply =
      client.Send({.method = "GET", .path = "/v1/models", .fields = FieldsOf(target)});
  if (!reply) return Unexpected(reply.error());
  if (reply->status != 200) {
    return MakeError(ErrorCode::kIo, "http://{}: GET /v1/models: HTTP {}: {}",
                     target.url.authority(), reply->status, ErrorMessageOf(reply->body));
  }
  const Result<JsonValue> json = ParseJson(reply->body);
  const JsonValue* models = json ? json->Find("data") : nullptr;
  const JsonValue* id =
      models != nullptr && !models->items.empty() ? models->items.front().Find("id") : nullptr;
  if (id == nullptr || !id->IsString()) {
    return MakeError(ErrorCode::kInvalidData,
                     "http://{}: GET /v1/models: expected a list with a model, found {}",
                     target.url.authority(), ErrorMessageOf(reply->body));
  }
  return id->text;
}

}  // namespace fathom::load
