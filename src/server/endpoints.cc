#include "server/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "api/common/generation_fields.h"
#include "api/openai/openai_api.h"
#include "base/utf8.h"
#include "json/field_reader.h"
#include "json/json_writer.h"

namespace fathom::server {
namespace {

ModelCard MakeCard(const ServedModel& model, const std::string& name) {
  return {.name = name,
          .root = model.root,
          .description = model.description,
          .created = model.created,
          .max_context = model.api->limits.max_context};
}

// Returns "a/b c" for "a%2Fb%20c"; text that is not an escape stays unchanged.
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

ApiError NotRunning(const std::string& id) {
  return MakeApiError(
      404, "not_found",
      fmt::format("no request \"{}\" generates now", ShortenedUtf8(id, kQuotedBytes)),
      "request_id");
}

}  // namespace

HttpResponse JsonResponse(const JsonValue& json, int status) {
  return {.status = status, .body = WriteJson(json)};
}

HttpResponse HealthResponse(const Health& health) {
  constexpr int kServiceUnavailable = 503;
  if (health.is_draining) return JsonResponse({{"status", "draining"}}, kServiceUnavailable);
  if (!health.is_ready) {
    return JsonResponse({{"status", "loading"}, {"progress", health.load_progress}},
                        kServiceUnavailable);
  }
  if (health.disk_fails) return JsonResponse({{"status", "storage_error"}}, kServiceUnavailable);
  return JsonResponse({{"status", "ok"}});
}

HttpResponse ModelListResponse(const ServedModel& model, const Api& api) {
  JsonValue cards = JsonValue::Array();
  for (const std::string& name : model.names)
    cards.push_back(api.model_card(MakeCard(model, name)));
  return JsonResponse(api.model_list(std::move(cards)));
}

ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      const Api& api, bool any_name) {
  const std::string name = Decode(encoded_name);
  if (!any_name && std::find(model.names.begin(), model.names.end(), name) == model.names.end()) {
    return tl::unexpected<ApiError>(UnknownModel(name));
  }
  return JsonResponse(api.model_card(MakeCard(model, name)));
}

ApiError UnknownModel(const std::string& name) {
  return MakeApiError(
      404, "model_not_found",
      fmt::format("the model \"{}\" is not served here; GET /v1/models tells which are",
                  ShortenedUtf8(name, kQuotedBytes)),
      "model");
}

ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, const ApiBody& body) {
  bool return_strings = false;
  bool is_chat = false;
  {
    const Result<JsonValue> json = ParseBody(body);  // freed before the body is read again
    if (!json) return UnexpectedApiError(json.error());
    FieldReader reader(*json);
    return_strings = reader.Flag("return_token_strs");
    if (reader.error()) return UnexpectedApiError(*reader.error());
    is_chat = reader.Find("messages") != nullptr;
  }
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

ApiResult<HttpResponse> DetokenizeResponse(const ApiModel& model, const ApiBody& body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return UnexpectedApiError(json.error());
  FieldReader reader(*json);
  const JsonValue* tokens = reader.Find("tokens");
  if (tokens == nullptr) reader.Fail("tokens", "a list of token ids", "nothing");
  const std::size_t n_tokens = tokens == nullptr ? 0 : tokens->items().size();
  if (n_tokens > model.limits.max_detokenized) {
    reader.Fail("tokens", fmt::format("at most {} token ids", model.limits.max_detokenized),
                fmt::format("{}", n_tokens));
  }
  std::string text;
  reader.ReadList("tokens", "a list of token ids",
                  [&](const JsonValue& item, const std::string& path) {
                    if (reader.error()) return;
                    const std::optional<std::int64_t> token =
                        reader.ToInteger(item, path, {0, model.limits.vocab_size - 1});
                    if (token) text += model.tokenizer->TokenBytes(static_cast<Token>(*token));
                  });
  if (reader.error()) return UnexpectedApiError(*reader.error());
  return JsonResponse({{"prompt", text}});
}

HttpResponse TokenizerInfoResponse(const ApiModel& model) {
  const std::string eos = model.tokenizer->TokenToText(model.eos);
  return JsonResponse({{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"bos_token", model.tokenizer->TokenToText(model.bos)},
                       {"eos_token", eos},
                       {"pad_token", eos},
                       {"add_bos_token", true},
                       {"add_eos_token", false},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", model.limits.max_context},
                       {"vocab_size", model.limits.vocab_size},
                       {"chat_template", nullptr}});
}

HttpResponse SlotsResponse(const GenerationTable& table) {
  JsonValue slots = JsonValue::Array();
  for (const GenerationTable::Row& row : table.List()) {
    slots.push_back({{"id", row.id},
                     {"path", row.path},
                     {"prompt_tokens", row.prompt_tokens},
                     {"output_tokens", row.output_tokens},
                     {"seconds", row.seconds}});
  }
  return JsonResponse(slots);
}

ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body) {
  const Result<JsonValue> json = ParseBody(body);
  if (!json) return UnexpectedApiError(json.error());
  FieldReader reader(*json);
  const std::string id = reader.Text("request_id");
  if (!reader.error() && id.empty()) reader.Fail("request_id", "the id of a request", "nothing");
  if (reader.error()) return UnexpectedApiError(*reader.error());
  const std::size_t n_aborted = table.Abort(id);
  if (n_aborted == 0) return tl::unexpected<ApiError>(NotRunning(id));
  return JsonResponse({{"request_id", id}, {"aborted", n_aborted}});
}

}  // namespace fathom::server
