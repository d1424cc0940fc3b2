#include "server/model_endpoints.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/common/generation_fields.h"
#include "api/common/sse.h"
#include "json/field_reader.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

HttpResponse JsonResponse(const JsonValue& json, int status = 200) {
  return {.status = status, .body = WriteJson(json)};
}

JsonValue OpenAiModel(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "deepseek-ai"},
          {"root", model.api->name},
          {"parent", nullptr},
          {"max_model_len", model.api->limits.max_context}};
}

JsonValue AnthropicModel(const ServedModel& model, const std::string& name) {
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                     fmt::gmtime(static_cast<std::time_t>(model.created)))},
          {"max_input_tokens", model.api->limits.max_context},
          {"max_tokens", model.api->limits.max_context}};
}

// "a/b c" of "a%2Fb%20c"; what is no escape stays.
std::string Decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

tl::unexpected<ApiError> Failed(const Error& error) {
  return tl::unexpected<ApiError>(ToApiError(error));
}

}  // namespace

HttpResponse HealthResponse(bool is_ready, bool is_draining, double load_progress) {
  constexpr int kServiceUnavailable = 503;
  if (is_ready) return JsonResponse({{"status", "ok"}});
  if (is_draining) return JsonResponse({{"status", "draining"}}, kServiceUnavailable);
  return JsonResponse({{"status", "loading"}, {"progress", load_progress}}, kServiceUnavailable);
}

HttpResponse VersionResponse(const std::string& version) {
  return JsonResponse({{"version", version}});
}

HttpResponse LoadResponse(std::int64_t n_generating) {
  return JsonResponse({{"server_load", n_generating}});
}

HttpResponse ModelListResponse(const ServedModel& model, bool for_anthropic) {
  JsonValue list = JsonValue::Array();
  for (const std::string& name : model.names) {
    list.push_back(for_anthropic ? AnthropicModel(model, name) : OpenAiModel(model, name));
  }
  if (for_anthropic) {
    return JsonResponse({{"data", std::move(list)},
                         {"has_more", false},
                         {"first_id", model.names.front()},
                         {"last_id", model.names.back()}});
  }
  // Codex reads the second list.
  return JsonResponse({{"object", "list"}, {"data", list}, {"models", list}});
}

ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      bool for_anthropic) {
  const std::string name = Decode(encoded_name);
  if (std::find(model.names.begin(), model.names.end(), name) == model.names.end()) {
    return tl::unexpected<ApiError>(UnknownModel(name));
  }
  return JsonResponse(for_anthropic ? AnthropicModel(model, name) : OpenAiModel(model, name));
}

ApiError UnknownModel(const std::string& name) {
  return {.status = 404,
          .message = fmt::format("the model \"{}\" is not served here; GET /v1/models tells which "
                                 "are",
                                 name),
          .type = "invalid_request_error",
          .param = "model",
          .code = "model_not_found"};
}

HttpResponse DeletedResponse(std::string_view id) {
  return JsonResponse({{"id", id}, {"object", "response"}, {"deleted", true}});
}

ApiError UnknownResponse(std::string_view id) {
  return {.status = 404,
          .message = fmt::format("the response \"{}\" is not stored, or not any more", id),
          .type = "invalid_request_error",
          .param = "id",
          .code = "not_found"};
}

ApiError SynchronousResponse() {
  return {.status = 400,
          .message = "Cannot cancel a synchronous response.",
          .type = "invalid_request_error"};
}

ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, std::string_view body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Failed(json.error());
  FieldReader reader(*json);
  bool return_strings = false;
  reader.ReadBool("return_token_strs", &return_strings);
  if (reader.error()) return Failed(*reader.error());
  const bool is_chat = reader.Find("messages") != nullptr;
  const ApiResult<ApiCall> call =
      PrepareCall(is_chat ? Endpoint::kChatCompletions : Endpoint::kCompletions, body, model);
  if (!call) return tl::unexpected<ApiError>(call.error());
  if (call->requests.size() != 1) {
    return Failed({ErrorCode::kInvalidArgument,
                   fmt::format("prompt: expected one text, found {}", call->requests.size())});
  }
  const std::vector<Token>& tokens = call->requests.front().prompt;
  JsonValue response = {{"count", tokens.size()},
                        {"max_model_len", model.limits.max_context},
                        {"tokens", tokens},
                        {"token_strs", nullptr}};
  if (return_strings) {
    response["token_strs"] = JsonValue::Array();
    for (const Token token : tokens) {
      response["token_strs"].push_back(model.tokenizer->TokenToText(token));
    }
  }
  return JsonResponse(response);
}

ApiResult<HttpResponse> DetokenizeResponse(const ApiModel& model, std::string_view body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return Failed(json.error());
  FieldReader reader(*json);
  const JsonValue* tokens = reader.Find("tokens");
  if (tokens == nullptr || !tokens->IsArray()) {
    reader.Fail("tokens", "a list of token ids",
                tokens == nullptr ? "nothing" : DescribeFound(*tokens));
    return Failed(*reader.error());
  }
  std::string text;
  for (std::size_t i = 0; i < tokens->items.size() && !reader.error(); ++i) {
    const std::optional<std::int64_t> token =
        reader.IntegerOf(tokens->items[i], fmt::format("tokens[{}]", i),
                         {.low = 0, .high = model.limits.vocab_size - 1});
    if (token) text += model.tokenizer->TokenBytes(static_cast<Token>(*token));
  }
  if (reader.error()) return Failed(*reader.error());
  return JsonResponse({{"prompt", text}});
}

}  // namespace fathom
