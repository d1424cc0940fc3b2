#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "api/anthropic/messages_format.h"
#include "api/common/answer_format.h"
#include "api/responses/responses_json.h"
#include "server/admin_endpoints.h"
#include "server/embedded_files.h"
#include "server/model_endpoints.h"
#include "server/recorded_exchange.h"
#include "server/web_files.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

ApiError NoSuchPath(std::string_view path) {
  return {.status = 404,
          .message = fmt::format("there is nothing at {}; /openapi.json tells what there is", path),
          .type = "invalid_request_error",
          .code = "not_found"};
}

// Requests of Anthropic's packages say so, and get errors in their form.
Endpoint FormOf(const HttpRequest& request) {
  const std::optional<Endpoint> endpoint = FindEndpoint(request.path);
  if (endpoint) return *endpoint;
  const bool is_anthropic = !request.Field("anthropic-version").empty() ||
                            request.path.starts_with("/v1/messages/") ||
                            request.path.starts_with("/anthropic/");
  return is_anthropic ? Endpoint::kMessages : Endpoint::kChatCompletions;
}

// What a client calls a request may go into a log and a header, so it is short and plain.
std::string RequestId(const HttpRequest& request, const RandomBits& random_bits) {
  constexpr std::size_t kMaxBytes = 128;
  const std::string_view id = request.Field("X-Request-Id");
  const bool is_plain =
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
  return id.empty() || id.size() > kMaxBytes || !is_plain ? MakeId("req_", random_bits)
                                                          : std::string(id);
}

// A body that says what it is says JSON. A page of another site can send other types unasked.
bool IsJson(const HttpRequest& request) {
  std::string_view type = request.Field("Content-Type");
  type = type.substr(0, std::min(type.find(';'), type.size()));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  constexpr std::string_view kJson = "application/json";
  return type.empty() ||
         std::equal(kJson.begin(), kJson.end(), type.begin(), type.end(), [](char json, char c) {
           return json == (c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
         });
}

}  // namespace

struct Service::RequestContext {
  const HttpRequest& request;
  RecordedExchange& exchange;
  ServedRequest& record;
  Endpoint form;          // of errors
  std::string_view rest;  // of the path, where the route leaves it open

  void Fail(const ApiError& error) {
    ApiError told = error;
    told.request_id = record.id;
    record.error = error.message;
    exchange.Send(ErrorResponse(form, told));
  }
};

// Whose path ends with '/' and is not "/" stands for all paths that begin with it; "{id}" in a path
// for whatever has no '/'.
struct Service::Route {
  enum class Key { kNever, kMetrics, kAlways, kAdmin };
  std::string_view method;
  std::string_view path;
  Answer answer;
  Key key = Key::kAlways;

  // What stands where the path is open, "" if it is not; nullopt: another path.
  std::optional<std::string_view> Match(std::string_view asked) const {
    constexpr std::string_view kId = "{id}";
    const std::size_t id = path.find(kId);
    const bool is_prefix = path.size() > 1 && path.back() == '/';
    if (id == std::string_view::npos && !is_prefix) {
      return asked == path ? std::optional(std::string_view()) : std::nullopt;
    }
    const std::string_view before = path.substr(0, id);
    const std::string_view behind = is_prefix ? "" : path.substr(id + kId.size());
    if (asked.size() <= before.size() + behind.size() || !asked.starts_with(before) ||
        !asked.ends_with(behind)) {
      return std::nullopt;
    }
    asked.remove_prefix(before.size());
    asked.remove_suffix(behind.size());
    if (!is_prefix && asked.find('/') != std::string_view::npos) return std::nullopt;
    return asked;
  }
};

// All but those that generate: FindEndpoint knows them.
std::span<const Service::Route> Service::Routes() {
  using Key = Route::Key;
  static constexpr std::array kRoutes = {
      Route{"GET", "/", &Service::ShowWebFile, Key::kNever},
      Route{"GET", "/web/", &Service::ShowWebFile, Key::kNever},
      Route{"GET", "/openapi.json", &Service::ShowOpenApi, Key::kNever},
      Route{"GET", "/health", &Service::ShowHealth, Key::kNever},
      Route{"GET", "/ping", &Service::ShowHealth, Key::kNever},
      Route{"GET", "/v1/health", &Service::ShowHealth, Key::kNever},
      Route{"GET", "/health/live", &Service::ShowLiveness, Key::kNever},
      Route{"GET", "/version", &Service::ShowVersion, Key::kNever},
      Route{"GET", "/metrics", &Service::ShowMetrics, Key::kMetrics},
      Route{"GET", "/load", &Service::ShowLoad},
      Route{"GET", "/v1/models", &Service::ListModels},
      Route{"GET", "/models", &Service::ListModels},
      Route{"GET", "/v1/models/", &Service::ShowModel},
      Route{"POST", "/tokenize", &Service::Tokenize},
      Route{"POST", "/detokenize", &Service::Detokenize},
      Route{"POST", "/v1/messages/count_tokens", &Service::CountTokens},
      Route{"POST", "/anthropic/v1/messages/count_tokens", &Service::CountTokens},
      Route{"GET", "/v1/responses/{id}", &Service::ShowResponse},
      Route{"DELETE", "/v1/responses/{id}", &Service::DeleteResponse},
      Route{"POST", "/v1/responses/{id}/cancel", &Service::CancelResponse},
      Route{"GET", "/slots", &Service::ShowSlots, Key::kAdmin},
      Route{"POST", "/abort", &Service::Abort, Key::kAdmin},
  };
  return kRoutes;
}

Service::Service(ServiceOptions options) : options_(std::move(options)), access_(options_.access) {}

Service::~Service() = default;

void Service::SetLoadProgress(double share) { load_progress_ = share; }

void Service::SetModel(ServedModel model) {
  model_ = std::make_unique<const ServedModel>(std::move(model));
  ready_ = model_.get();
}

void Service::SetHttpCounts(std::function<HttpCounts()> counts) {
  const std::lock_guard lock(mutex_);
  http_counts_ = std::move(counts);
}

void Service::Drain() { draining_ = true; }

std::string Service::TransportErrorBody(int status, std::string_view message) {
  return ToJson({.status = status,
                 .message = std::string(message),
                 .type = status >= 500 ? "server_error" : "invalid_request_error",
                 .code = "transport"});
}

void Service::Handle(const HttpRequest& request, HttpExchange& exchange) {
  const Clock::time_point start = Clock::now();
  ServedRequest record = {.id = RequestId(request, options_.generation.random_bits),
                          .peer = request.peer,
                          .method = request.method,
                          .path = request.path,
                          .endpoint = "none"};
  RecordedExchange recorded(exchange, record, options_.log_content);
  const Endpoint form = FormOf(request);
  recorded.AddField("X-Request-Id", record.id);
  if (form == Endpoint::kMessages) recorded.AddField("request-id", record.id);  // their name for it
  access_.AddCorsFields(request, &recorded.fields());
  RequestContext asked = {
      .request = request, .exchange = recorded, .record = record, .form = form, .rest = {}};
  Dispatch(asked);
  record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  metrics_.Count(record);
  if (options_.record) options_.record(record);
}

void Service::Dispatch(RequestContext& asked) {
  const HttpRequest& request = asked.request;
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  const Route generating = {"POST", request.path, &Service::Complete};
  const bool generates = FindEndpoint(request.path).has_value();
  std::string allowed;
  for (const Route& route : generates ? std::span(&generating, 1) : Routes()) {
    const std::optional<std::string_view> rest = route.Match(request.path);
    if (!rest || (route.key == Route::Key::kAdmin && !access_.has_admins())) continue;
    if (route.method != method) {
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.method;
      if (route.method == "GET") allowed += ", HEAD";
      continue;
    }
    asked.record.endpoint = route.path;
    asked.rest = *rest;
    if (Authorize(asked, route)) (this->*route.answer)(asked);
    return;
  }
  if (allowed.empty()) {
    asked.Fail(NoSuchPath(request.path));
  } else if (request.method == "OPTIONS") {
    HttpResponse response = {.status = 204, .content_type = ""};
    response.fields.emplace_back("Allow", allowed + ", OPTIONS");
    access_.AddPreflightFields(request, &response.fields);
    asked.exchange.Send(std::move(response));
  } else {
    asked.exchange.AddField("Allow", allowed + ", OPTIONS");
    asked.Fail(
        {.status = 405,
         .message = fmt::format("{} takes {}, not {}", request.path, allowed, request.method),
         .type = "invalid_request_error",
         .code = "method_not_allowed"});
  }
}

bool Service::Authorize(RequestContext& asked, const Route& route) {
  const bool is_admin = route.key == Route::Key::kAdmin;
  const bool needs_key = is_admin || route.key == Route::Key::kAlways ||
                         (route.key == Route::Key::kMetrics && options_.protect_metrics);
  const bool has_key =
      is_admin ? access_.HasAdminKey(asked.request) : access_.HasKey(asked.request);
  if (!access_.KnowsHost(asked.request)) {
    asked.Fail({.status = 403,
                .message = fmt::format("Host: \"{}\" is not a name of this server; --allowed-hosts "
                                       "makes it one",
                                       asked.request.Field("Host")),
                .type = "permission_error",
                .code = "unknown_host"});
  } else if (needs_key && !has_key) {
    asked.exchange.AddField("WWW-Authenticate", "Bearer");
    asked.Fail({.status = 401,
                .message = fmt::format("the {} key is missing or wrong: Authorization: Bearer KEY",
                                       is_admin ? "admin" : "API"),
                .type = "authentication_error",
                .code = "invalid_api_key"});
  } else if (route.method != "GET" && !access_.MayAsk(asked.request)) {
    asked.Fail({.status = 403,
                .message = fmt::format("Origin: pages of \"{}\" may not ask; --cors-origins allows "
                                       "them",
                                       asked.request.Field("Origin")),
                .type = "permission_error",
                .code = "origin_not_allowed"});
  } else if (route.method == "POST" && !IsJson(asked.request)) {
    asked.Fail({.status = 415,
                .message = fmt::format("Content-Type: expected application/json, found \"{}\"",
                                       asked.request.Field("Content-Type")),
                .type = "invalid_request_error",
                .code = "unsupported_media_type"});
  } else {
    return true;
  }
  return false;
}

const ServedModel* Service::Model(RequestContext& asked) {
  const ServedModel* model = ready_;
  if (model == nullptr) {
    asked.Fail({.status = 503,
                .message = fmt::format("the model is loading: {:.0f} %", 100 * load_progress_),
                .type = "overloaded_error",
                .code = "loading"});
  }
  return model;
}

void Service::ShowWebFile(RequestContext& asked) {
  std::optional<HttpResponse> response = WebFileResponse(asked.request);
  if (!response) return asked.Fail(NoSuchPath(asked.request.path));
  asked.exchange.Send(std::move(*response));
}

void Service::ShowOpenApi(RequestContext& asked) {
  asked.exchange.Send({.body = std::string(OpenApiJson())});
}

void Service::ShowHealth(RequestContext& asked) {
  const bool is_ready = ready_ != nullptr && !draining_;
  asked.exchange.Send(HealthResponse(is_ready, draining_, load_progress_));
}

void Service::ShowLiveness(RequestContext& asked) {
  asked.exchange.Send({.body = R"({"status":"ok"})"});
}

void Service::ShowVersion(RequestContext& asked) {
  asked.exchange.Send(VersionResponse(options_.version));
}

void Service::ShowMetrics(RequestContext& asked) {
  const ServedModel* model = ready_;
  HttpCounts counts;
  {
    const std::lock_guard lock(mutex_);
    if (http_counts_) counts = http_counts_();
  }
  asked.exchange.Send(
      {.content_type = "text/plain; version=0.0.4; charset=utf-8",
       .body = metrics_.PrometheusText(counts, model == nullptr ? nullptr : model->metrics,
                                       model == nullptr ? "" : model->names.front())});
}

void Service::ShowLoad(RequestContext& asked) {
  asked.exchange.Send(LoadResponse(static_cast<std::int64_t>(generating_.size())));
}

void Service::ListModels(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model != nullptr) {
    asked.exchange.Send(ModelListResponse(*model, asked.form == Endpoint::kMessages));
  }
}

void Service::ShowModel(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  ApiResult<HttpResponse> response =
      ModelResponse(*model, asked.rest, asked.form == Endpoint::kMessages);
  response ? asked.exchange.Send(*std::move(response)) : asked.Fail(response.error());
}

void Service::Tokenize(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  ApiResult<HttpResponse> response = TokenizeResponse(*model->api, asked.request.body);
  response ? asked.exchange.Send(*std::move(response)) : asked.Fail(response.error());
}

void Service::Detokenize(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  ApiResult<HttpResponse> response = DetokenizeResponse(*model->api, asked.request.body);
  response ? asked.exchange.Send(*std::move(response)) : asked.Fail(response.error());
}

void Service::CountTokens(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  const ApiResult<std::int64_t> count = CountMessageTokens(asked.request.body, *model->api);
  count ? asked.exchange.Send({.body = CountTokensBody(*count)}) : asked.Fail(count.error());
}

void Service::Complete(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  if (draining_) {
    asked.Fail({.status = 503,
                .message = "the server is shutting down",
                .type = "overloaded_error",
                .code = "shutting_down"});
    return;
  }
  if (options_.log_content) asked.record.body = asked.request.body;
  const ApiResult<ApiCall> call = PrepareCall(asked.form, asked.request.body, *model->api);
  if (!call) {
    asked.Fail(call.error());
    return;
  }
  const auto& names = model->names;
  if (options_.strict_model_names &&
      std::find(names.begin(), names.end(), call->model) == names.end()) {
    asked.Fail(UnknownModel(call->model));
    return;
  }
  if (call->n_replayed > 0) {
    asked.exchange.AddField("X-Exact-Replay", fmt::format("{}", call->n_replayed));
  }
  GenerationTable::Entry entry(generating_, asked.record.id, asked.record.path);
  Generate(*call, *model->api, *model->runner, options_.generation,
           {.exchange = asked.exchange, .record = asked.record, .entry = entry});
}

void Service::ShowResponse(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  std::optional<std::string> response =
      model->api->responses ? model->api->responses->FindResponse(asked.rest) : std::nullopt;
  response ? asked.exchange.Send({.body = *std::move(response)})
           : asked.Fail(UnknownResponse(asked.rest));
}

void Service::DeleteResponse(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  if (model->api->responses && model->api->responses->Remove(asked.rest)) {
    asked.exchange.Send(DeletedResponse(asked.rest));
  } else {
    asked.Fail(UnknownResponse(asked.rest));
  }
}

// Only what runs in the background can be cancelled by its id, and nothing here does: a client that
// closes its connection cancels.
void Service::CancelResponse(RequestContext& asked) {
  const ServedModel* model = Model(asked);
  if (model == nullptr) return;
  const bool is_stored =
      model->api->responses && model->api->responses->FindResponse(asked.rest).has_value();
  asked.Fail(is_stored ? SynchronousResponse() : UnknownResponse(asked.rest));
}

void Service::ShowSlots(RequestContext& asked) { asked.exchange.Send(SlotsResponse(generating_)); }

void Service::Abort(RequestContext& asked) {
  const ApiResult<HttpResponse> response = AbortResponse(generating_, asked.request.body);
  response ? asked.exchange.Send(*response) : asked.Fail(response.error());
}

}  // namespace fathom
