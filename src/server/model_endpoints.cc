#include "server/model_endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/common/generation_fields.h"
#include "api/openai/openai_api.h"
#include "json/field_reader.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

HttpResponse JsonResponse(const JsonValue& json, int status = 200) {
  return {.status = status, .body = WriteJson(json)};
}

ModelCard CardOf(const ServedModel& model, const std::string& name) {
  return {.name = name,
          .root = model.api->name,
          .created = model.created,
          .max_context = model.api->limits.max_context};
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

HttpResponse ModelListResponse(const ServedModel& model, const Api& api) {
  std::vector<ModelCard> cards;
  for (const std::string& name : model.names) cards.push_back(CardOf(model, name));
  return JsonResponse(api.model_list(cards));
}

ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      const Api& api) {
  const std::string name = Decode(encoded_name);
  if (std::find(model.names.begin(), model.names.end(), name) == model.names.end()) {
    return tl::unexpected<ApiError>(UnknownModel(name));
  }
  return JsonResponse(api.model_card(CardOf(model, name)));
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

ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, std::string_view body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return UnexpectedApiError(json.error());
  FieldReader reader(*json);
  bool return_strings = false;
  reader.ReadBool("return_token_strs", &return_strings);
  if (reader.error()) return UnexpectedApiError(*reader.error());
  const bool is_chat = reader.Find("messages") != nullptr;
  const ApiResult<ApiCall> call = (is_chat ? kChatCompletions : kCompletions).prepare(body, model);
  if (!call) return tl::unexpected<ApiError>(call.error());
  if (call->requests.size() != 1) {
    return UnexpectedApiError(
        {ErrorCode::kInvalidArgument,
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
  if (!json) return UnexpectedApiError(json.error());
  FieldReader reader(*json);
  const JsonValue* tokens = reader.Find("tokens");
  if (tokens == nullptr || !tokens->IsArray()) {
    reader.Fail("tokens", "a list of token ids",
                tokens == nullptr ? "nothing" : DescribeFound(*tokens));
    return UnexpectedApiError(*reader.error());
  }
  std::string text;
  for (std::size_t i = 0; i < tokens->items.size() && !reader.error(); ++i) {
    const std::optional<std::int64_t> token =
        reader.IntegerOf(tokens->items[i], fmt::format("tokens[{}]", i),
                         {.low = 0, .high = model.limits.vocab_size - 1});
    if (token) text += model.tokenizer->TokenBytes(static_cast<Token>(*token));
  }
  if (reader.error()) return UnexpectedApiError(*reader.error());
  return JsonResponse({{"prompt", text}});
}

}  // namespace fathom
