// Endpoints that generate nothing: models, health, tokens of a text, and endpoints for
// administrators. docs/spec/serving.md section 4.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api.h"
#include "api/common/request_runner.h"
#include "engine/metrics.h"
#include "http/http.h"
#include "json/json_value.h"
#include "server/generation_table.h"

namespace fathom::server {

// The served model, once it is loaded. It must outlive the service's last request.
struct ServedModel {
  const ApiModel* api = nullptr;
  // By the number of the client's key (KeyHolder::api_key), if each client has its own memory;
  // otherwise empty: all use `api`.
  std::vector<const ApiModel*> api_of_key{};
  RequestRunner* runner = nullptr;
  const EngineMetrics* metrics = nullptr;
  // Engine::ClearPrefixCache. Any thread.
  std::function<void()> clear_prefix_cache{};
  std::string root;                // name of the model itself: the name of its directory
  std::vector<std::string> names;  // the names in GET /v1/models; at least one
  std::string description;         // one line for the model's users; may be empty
  std::int64_t created = 0;        // seconds since 1970, UTC
  std::int64_t max_sequences = 1;  // answers that are computed concurrently
};

HttpResponse JsonResponse(const JsonValue& json, int status = 200);

struct Health {
  bool is_ready = false;
  bool is_draining = false;
  bool disk_fails = false;   // reads of the model's experts fail
  double load_progress = 0;  // 0 to 1, before it is ready
};

// Returns 200 if the server can generate, otherwise 503: draining, loading (with the loaded share)
// or storage_error.
HttpResponse HealthResponse(const Health& health);

// Returns the list of models in the form of the API.
HttpResponse ModelListResponse(const ServedModel& model, const Api& api);
// `encoded_name`: the name as written in the path. `any_name`: the model also answers to names that
// are not in /v1/models.
ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      const Api& api, bool any_name);
ApiError UnknownModel(const std::string& name);

// Returns a 404 with advice for clients of other servers: this kind of model has no such endpoint,
// the base URL has /v1 twice, or the path that was probably meant. `paths`: the paths that the
// client may use.
ApiError NoSuchPath(std::string_view path, std::span<const std::string_view> paths);

// {"prompt": ... or "messages": ..., "add_special_tokens", "return_token_strs"} ->
// {"count", "max_model_len", "tokens", "token_strs"}
ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, const ApiBody& body);
// {"tokens": [...]} -> {"prompt"}
ApiResult<HttpResponse> DetokenizeResponse(const ApiModel& model, const ApiBody& body);
// Returns the fields of vLLM's /tokenizer_info that clients read: the special tokens, and whether a
// text gets a begin token.
HttpResponse TokenizerInfoResponse(const ApiModel& model);

// For holders of an admin key: [{"id", "path", "prompt_tokens", "output_tokens", "seconds"}, ...],
// oldest first.
HttpResponse SlotsResponse(const GenerationTable& table);

// For holders of an admin key: {"request_id"} -> {"request_id", "aborted"}, the number of requests
// with that id that will end. Errors: a body of another form; 404 if there is no such request, or
// it has ended.
ApiResult<HttpResponse> AbortResponse(GenerationTable& table, std::string_view body);

}  // namespace fathom::server
