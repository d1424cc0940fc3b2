// Endpoints that generate nothing: models, health, tokens of a text, and those of administrators.
// docs/spec/serving.md section 4.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api.h"
#include "api/common/request_runner.h"
#include "engine/metrics.h"
#include "http/http.h"
#include "json/json_value.h"
#include "server/generation_table.h"

namespace fathom {

// The served model, once it is loaded. It outlives the service's last request.
struct ServedModel {
  const ApiModel* api = nullptr;
  // By the number of the client's key (KeyHolder::api_key), where each client has a memory of its
  // own; else empty: all use `api`.
  std::vector<const ApiModel*> api_of_key{};
  RequestRunner* runner = nullptr;
  const EngineMetrics* metrics = nullptr;
  // Engine::ClearPrefixCache. Any thread.
  std::function<void()> clear_prefix_cache{};
  std::string root;                // the name of the model itself: that of its directory
  std::vector<std::string> names;  // as GET /v1/models tells them; at least one
  std::string description;         // one line for the model's users; may be empty
  std::int64_t created = 0;        // seconds since 1970, UTC
  std::int64_t max_sequences = 1;  // answers that are computed at once
};

HttpResponse JsonResponse(const JsonValue& json, int status = 200);

struct Health {
  bool is_ready = false;
  bool is_draining = false;
  bool disk_fails = false;   // reads of the model's experts fail
  double load_progress = 0;  // 0 to 1, before it is ready
};

// Returns 200 if the server can generate, else 503: draining, loading (with the share that is done)
// or storage_error.
HttpResponse HealthResponse(const Health& health);

// Returns the list of models in the form of the API.
HttpResponse ModelListResponse(const ServedModel& model, const Api& api);
// `encoded_name`: the name as the path has it. `any_name`: the model answers to names that
// /v1/models does not tell, too.
ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      const Api& api, bool any_name);
ApiError UnknownModel(const std::string& name);

// {"prompt": ... or "messages": ..., "add_special_tokens", "return_token_strs"} ->
// {"count", "max_model_len", "tokens", "token_strs"}
ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, const ApiBody& body);
// {"tokens": [...]} -> {"prompt"}
ApiResult<HttpResponse> DetokenizeResponse(const ApiModel& model, const ApiBody& body);
// Returns what vLLM's /tokenizer_info tells that clients read: the special tokens, and whether a
// text gets a begin token.
HttpResponse TokenizerInfoResponse(const ApiModel& model);

// For holders of an admin key: [{"id", "path", "prompt_tokens", "output_tokens", "seconds"}, ...],
// the oldest first.
HttpResponse SlotsResponse(const GenerationTable& table);

// For holders of an admin key: {"request_id"} -> {"request_id", "aborted"}, how many requests of
// that id are told to end. Errors: a body that is none; 404 if there is no such request, or not any
// more.
ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body);

}  // namespace fathom
