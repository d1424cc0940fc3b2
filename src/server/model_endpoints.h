// Endpoints that generate nothing: models, health, tokens of a text. docs/spec/serving.md section
// 4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api.h"
#include "api/common/request_runner.h"
#include "engine/metrics.h"
#include "http/http.h"

namespace fathom {

// The served model, once it is loaded. It outlives the service's last request.
struct ServedModel {
  const ApiModel* api = nullptr;
  RequestRunner* runner = nullptr;
  const EngineMetrics* metrics = nullptr;
  std::vector<std::string> names;  // as GET /v1/models tells them; at least one
  std::int64_t created = 0;        // seconds since 1970, UTC
};

// 200 if it can generate, else 503: loading (with the share that is done) or draining.
HttpResponse HealthResponse(bool is_ready, bool is_draining, double load_progress);
HttpResponse VersionResponse(const std::string& version);
// How many requests generate now.
HttpResponse LoadResponse(std::int64_t n_generating);

// Returns the list of models in the form of the API.
HttpResponse ModelListResponse(const ServedModel& model, const Api& api);
// `encoded_name`: as it stands in the path.
ApiResult<HttpResponse> ModelResponse(const ServedModel& model, std::string_view encoded_name,
                                      const Api& api);
ApiError UnknownModel(const std::string& name);

// {"prompt": ... or "messages": ..., "add_special_tokens", "return_token_strs"} ->
// {"count", "max_model_len", "tokens", "token_strs"}
ApiResult<HttpResponse> TokenizeResponse(const ApiModel& model, std::string_view body);
// {"tokens": [...]} -> {"prompt"}
ApiResult<HttpResponse> DetokenizeResponse(const ApiModel& model, std::string_view body);

}  // namespace fathom
