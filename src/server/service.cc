#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "api/common/api.h"
#include "base/ascii.h"
#include "base/utf8.h"
#include "http/content_decoder.h"
#include "server/compatible_endpoints.h"
#include "server/embedded_files.h"
#include "server/openapi_document.h"
#include "server/recorded_exchange.h"

namespace fathom::server {
namespace {

using Clock = std::chrono::steady_clock;

ApiError ShuttingDown() {
  return MakeApiError(503, "shutting_down", "the server is shutting down");
}

// Returns the API whose errors and model cards the client understands.
const Api& ChooseApi(const HttpRequest& request) {
  // Several APIs may have one prefix.
  if (const Api* api = FindApi(request.path)) return *api;
  for (const Api* api : Apis()) {
    const auto& prefixes = api->path_prefixes;
    if ((!api->header.empty() && !request.Field(api->header).empty()) ||
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](std::string_view prefix) { return request.path.starts_with(prefix); })) {
      return *api;
    }
  }
  return *Apis().front();
}

// Returns the client's name for a request if it is short and plain, because it may go into a log
// and a header.
std::string RequestId(const HttpRequest& request, const RandomBits& random_bits) {
  constexpr std::size_t kMaxBytes = 128;
  const std::string_view id = request.Field("X-Request-Id");
  const bool is_plain =
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
  return id.empty() || id.size() > kMaxBytes || !is_plain ? MakeId("req_", random_bits)
                                                          : std::string(id);
}

bool DiskFails(const ServedModel& model) {
  const std::optional<StreamingCounts> streaming = model.metrics->Snapshot().streaming;
  return streaming && streaming->DiskFails(Clock::now());
}

// Returns whether the body is JSON by its content type. A page of another site can send other types
// without permission.
bool IsJson(const HttpRequest& request) {
  std::string_view type = request.Field("Content-Type");
  type = type.substr(0, std::min(type.find(';'), type.size()));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  return type.empty() || EqualsWithoutCase(type, "application/json");
}

// Returns all fields with that name as one list.
std::string AllOfField(const HttpRequest& request, std::string_view name) {
  std::string all;
  for (const auto& [field, value] : request.fields) {
    if (!EqualsWithoutCase(field, name)) continue;
    all.append(all.empty() ? "" : ", ").append(value);
  }
  return all;
}

// Quotes a client's text, which may be long.
std::string Quoted(std::string_view text) {
  return fmt::format("\"{}\"", ShortenedUtf8(text, kQuotedBytes));
}

}  // namespace

struct Service::RequestContext {
  const HttpRequest& request;
  RecordedExchange& exchange;
  ServedRequest& record;
  const Api& api;  // API for errors and model cards
  const KeyHolder holder;
  const ApiBody body;
  const std::atomic<bool>& is_draining;
  BodyGate::Pass pass{};                // until the body is prepared
  const Route* route = nullptr;         // from FindRoute on
  const ServedModel* model = nullptr;   // for routes that need it
  const ApiModel* api_model = nullptr;  // the model for this client; set with `model`
  std::string_view rest{};              // part of the path that the route leaves open

  // The pass ends here, so that others may prepare their bodies while a slow client reads its
  // answer.
  void Fail(ApiError error) {
    pass.reset();
    if (error.status == 503 && is_draining) error = ShuttingDown();  // draining may have caused it
    error.request_id = record.id;
    record.SetError(error);
    exchange.Send(ErrorResponse(api, error));
  }
  void Send(ApiResult<HttpResponse> response) {
    if (!response) return Fail(std::move(response.error()));
    pass.reset();
    exchange.Send(*std::move(response));
  }
};

// A path that ends with '/' and is not "/" matches all paths that begin with it; "{id}" in a path
// matches any text without '/'.
struct Service::Route {
  static constexpr std::string_view kId = "{id}";
  enum class Key { kNever, kHealth, kMetrics, kAlways, kAdmin };  // kHealth: never, and vital
  std::string_view method;
  std::string_view path;
  Answer answer;
  Key key = Key::kAlways;
  bool needs_model = false;
  const ApiRoute* api_route = nullptr;  // for AnswerApiRoute

  // Returns whether the operators of the server need it while clients keep the server busy.
  bool is_vital() const {
    return key == Key::kHealth || key == Key::kMetrics || key == Key::kAdmin;
  }
  static bool IsOpen(std::string_view path) {
    return path.find(kId) != std::string_view::npos || (path.size() > 1 && path.back() == '/');
  }
  // Returns the text in the open part of the path, "" if there is none; nullopt: another path.
  std::optional<std::string_view> Match(std::string_view requested) const {
    const std::size_t id = path.find(kId);
    const bool is_prefix = path.size() > 1 && path.back() == '/';
    if (id == std::string_view::npos && !is_prefix) {
      return requested == path ? std::optional(std::string_view()) : std::nullopt;
    }
    const std::string_view before = path.substr(0, id);
    const std::string_view behind = is_prefix ? "" : path.substr(id + kId.size());
    if (requested.size() <= before.size() + behind.size() || !requested.starts_with(before) ||
        !requested.ends_with(behind)) {
      return std::nullopt;
    }
    requested.remove_prefix(before.size());
    requested.remove_suffix(behind.size());
    if (!is_prefix && requested.find('/') != std::string_view::npos) return std::nullopt;
    return requested;
  }
};

std::vector<std::string_view> Service::PublicPaths() const {
  std::vector<std::string_view> paths;
  for (const Route& route : routes_) {
    if (route.key != Route::Key::kAdmin) paths.push_back(route.path);
  }
  return paths;
}

std::vector<Service::Route> Service::StateRoutes() {
  using Key = Route::Key;
  const Answer show_file = [](Service&, RequestContext& context) {
    std::optional<HttpResponse> response = WebFileResponse(context.request);
    if (!response) return context.Fail(NoSuchPath(context.request.path, {}));
    context.exchange.Send(std::move(*response));
  };
  const Answer show_health = [](Service& service, RequestContext& context) {
    const ServedModel* const model = service.ready_;
    context.exchange.Send(HealthResponse({.is_ready = model != nullptr,
                                          .is_draining = service.draining_,
                                          .disk_fails = model != nullptr && DiskFails(*model),
                                          .load_progress = service.load_progress_}));
  };
  const Answer show_life = [](Service&, RequestContext& context) {
    context.exchange.Send(JsonResponse({{"status", "ok"}}));
  };
  const Answer show_version = [](Service& service, RequestContext& context) {
    context.exchange.Send(JsonResponse({{"version", service.options_.version}}));
  };
  return {
      {"GET", "/", show_file, Key::kNever},
      {"GET", "/web/", show_file, Key::kNever},
      {"GET", "/openapi.json",
       [](Service& service, RequestContext& context) {
         context.exchange.Send(
             {.body = service.ready_ == nullptr ? OpenApiDocument() : service.openapi_});
       },
       Key::kNever},
      {"GET", "/health", show_health, Key::kHealth},
      {"GET", "/ping", show_health, Key::kHealth},
      {"GET", "/v1/health", show_health, Key::kHealth},
      {"GET", "/ready", show_health, Key::kHealth},
      {"GET", "/readyz", show_health, Key::kHealth},
      {"GET", "/health/live", show_life, Key::kHealth},
      {"GET", "/healthz", show_life, Key::kHealth},
      {"GET", "/livez", show_life, Key::kHealth},
      {"GET", "/version", show_version, Key::kNever},
      {"GET", "/api/version", show_version, Key::kNever},
      {"GET", "/metrics",
       [](Service& service, RequestContext& context) {
         context.exchange.Send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                .body = service.MetricsText()});
       },
       Key::kMetrics},
      {"GET", "/load",
       [](Service& service, RequestContext& context) {
         context.exchange.Send(JsonResponse({{"server_load", service.generating_.size()}}));
       }},
      {"GET", "/slots",
       [](Service& service, RequestContext& context) {
         context.exchange.Send(SlotsResponse(service.generating_));
       },
       Key::kAdmin},
      {"POST", "/abort",
       [](Service& service, RequestContext& context) {
         context.Send(AbortResponse(service.generating_, context.request.body));
       },
       Key::kAdmin},
  };
}

std::vector<Service::Route> Service::ModelAdminRoutes() {
  const Answer clear_prefixes = [](Service&, RequestContext& context) {
    context.model->clear_prefix_cache();
    context.exchange.Send(JsonResponse({{"success", true}}));
  };
  const Answer show_server = [](Service& service, RequestContext& context) {
    context.exchange.Send(ServerInfoResponse(*context.model, service.options_.version));
  };
  return {
      {"POST", "/reset_prefix_cache", clear_prefixes, Route::Key::kAdmin, true},
      {"POST", "/flush_cache", clear_prefixes, Route::Key::kAdmin, true},
      {"GET", "/server_info", show_server, Route::Key::kAdmin, true},
      {"GET", "/get_server_info", show_server, Route::Key::kAdmin, true},
  };
}

std::vector<Service::Route> Service::Routes() {
  const Answer list_models = [](Service&, RequestContext& context) {
    context.exchange.Send(ModelListResponse(*context.model, context.api));
  };
  const Answer tokenize = [](Service&, RequestContext& context) {
    context.Send(TokenizeResponse(*context.api_model, context.body));
  };
  const Answer detokenize = [](Service&, RequestContext& context) {
    context.Send(DetokenizeResponse(*context.api_model, context.body));
  };
  const Answer show_model = [](Service&, RequestContext& context) {
    context.exchange.Send(ModelInfoResponse(*context.model));
  };
  std::vector<Route> routes = StateRoutes();
  const std::vector<Route> admin_routes = ModelAdminRoutes();
  routes.insert(routes.end(), admin_routes.begin(), admin_routes.end());
  const Route model_routes[] = {
      {"GET", "/v1/models", list_models, Route::Key::kAlways, true},
      {"GET", "/models", list_models, Route::Key::kAlways, true},
      {"GET", "/v1/models/",
       [](Service& service, RequestContext& context) {
         context.Send(ModelResponse(*context.model, context.rest, context.api,
                                    !service.options_.strict_model_names));
       },
       Route::Key::kAlways, true},
      {"POST", "/tokenize", tokenize, Route::Key::kAlways, true},
      {"POST", "/v1/tokenize", tokenize, Route::Key::kAlways, true},
      {"POST", "/detokenize", detokenize, Route::Key::kAlways, true},
      {"POST", "/v1/detokenize", detokenize, Route::Key::kAlways, true},
      {"POST", "/apply-template",
       [](Service&, RequestContext& context) {
         context.Send(ApplyTemplateResponse(*context.api_model, context.body));
       },
       Route::Key::kAlways, true},
      {"GET", "/props",
       [](Service& service, RequestContext& context) {
         context.exchange.Send(PropsResponse(*context.model, service.options_.version));
       },
       Route::Key::kAlways, true},
      {"GET", "/api/tags", list_models, Route::Key::kAlways, true},
      {"POST", "/api/show",
       [](Service&, RequestContext& context) {
         context.Send(ShowResponse(*context.model, context.body));
       },
       Route::Key::kAlways, true},
      {"GET", "/get_model_info", show_model, Route::Key::kAlways, true},
      {"GET", "/model_info", show_model, Route::Key::kAlways, true},
      {"GET", "/tokenizer_info",
       [](Service&, RequestContext& context) {
         context.exchange.Send(TokenizerInfoResponse(*context.api_model));
       },
       Route::Key::kAlways, true},
  };
  routes.insert(routes.end(), std::begin(model_routes), std::end(model_routes));
  for (const Api* api : Apis()) {
    for (const std::string_view path : api->paths) {
      routes.push_back(
          {"POST", path,
           [](Service& service, RequestContext& context) { service.Complete(context); },
           Route::Key::kAlways, true});
    }
    for (const ApiRoute& route : api->routes) {
      routes.push_back(
          {route.method, route.path, AnswerApiRoute, Route::Key::kAlways, true, &route});
    }
  }
  return routes;
}

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      routes_(Routes()),
      access_(options_.access),
      small_bodies_(options_.prepared_bytes),
      large_bodies_(options_.prepared_bytes) {}

Service::~Service() = default;

void Service::SetModel(ServedModel model) {
  model_ = std::make_unique<const ServedModel>(std::move(model));
  openapi_ = OpenApiDocument(model_->api->limits);
  ready_ = model_.get();
}

void Service::SetHttpCounts(std::function<HttpCounts()> counts) {
  const std::lock_guard lock(mutex_);
  http_counts_ = std::move(counts);
}

HttpFields Service::CommonFields(const HttpRequest& request, const Api& api,
                                 const std::string& id) const {
  HttpFields fields = {{"X-Request-Id", id}};
  if (!api.request_id_header.empty()) fields.emplace_back(api.request_id_header, id);
  access_.AddCorsFields(request, &fields);
  return fields;
}

HttpResponse Service::AnswerRefusal(const HttpRequest& request, const HttpRefusal& refusal) const {
  const Api& api = ChooseApi(request);
  const std::string id = RequestId(request, options_.generation.random_bits);
  HttpResponse response =
      ErrorResponse(api, {.status = refusal.status,
                          .message = refusal.message,
                          .type = refusal.status >= 500 ? "server_error" : "invalid_request_error",
                          .code = "transport",
                          .request_id = id});
  const HttpFields fields = CommonFields(request, api, id);
  response.fields.insert(response.fields.end(), fields.begin(), fields.end());
  return response;
}

Result<std::unique_ptr<HttpServer>> Service::Listen(HttpServerOptions options) {
  options.answer_refusal = [this](const HttpRequest& request, const HttpRefusal& refusal) {
    return AnswerRefusal(request, refusal);
  };
  options.answer_head = [this](const HttpRequest& head, HttpExchange& exchange) {
    return AnswerHead(head, exchange);
  };
  options.is_vital = [this](const HttpRequest& head) { return IsVital(head); };
  return HttpServer::Listen(
      std::move(options),
      [this](const HttpRequest& request, HttpExchange& exchange) { Handle(request, exchange); });
}

bool Service::IsVital(const HttpRequest& head) const {
  return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) {
    return route.is_vital() && route.Match(head.path);
  });
}

bool Service::Serve(const HttpRequest& request, HttpExchange& exchange, Part part) {
  const Clock::time_point start = Clock::now();
  const KeyHolder holder = access_.FindHolder(request);
  ServedRequest record = {.id = RequestId(request, options_.generation.random_bits),
                          .peer = request.peer,
                          .method = ShortenedUtf8(request.method, kQuotedBytes),
                          .path = ShortenedUtf8(request.path, kQuotedBytes),
                          .endpoint = "none",
                          .has_key = holder.api_key || holder.is_admin};
  const Api& api = ChooseApi(request);
  RecordedExchange recorded(exchange, record, options_.log_content);
  recorded.fields() = CommonFields(request, api, record.id);
  RequestContext context = {
      .request = request,
      .exchange = recorded,
      .record = record,
      .api = api,
      .holder = holder,
      .body = ApiBody(request.body, [&] { return draining_ || recorded.ClientIsGone(); }),
      .is_draining = draining_};
  const bool is_admitted = FindRoute(context) && Authorize(context) &&
                           (!context.route->needs_model || FindModel(context));
  if (is_admitted && part == Part::kHead && context.route->method == "POST") return false;
  if (is_admitted && Enter(context)) context.route->answer(*this, context);
  record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  metrics_.Count(record);
  if (options_.record) options_.record(record);
  return true;
}

bool Service::Enter(RequestContext& context) {
  const std::size_t n_bytes = context.body.text.size();
  if (n_bytes == 0 || context.route->is_vital()) return true;
  BodyGate& gate = n_bytes > options_.large_body ? large_bodies_ : small_bodies_;
  context.pass = gate.Enter(n_bytes, context.body.is_abandoned);
  if (context.pass) return true;
  context.Fail(ToApiError({ErrorCode::kUnavailable, "the request was abandoned"}));
  return false;
}

bool Service::FindRoute(RequestContext& context) {
  const HttpRequest& request = context.request;
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  // "/v1/responses/input_tokens" is not a response with that id.
  const bool is_whole = std::any_of(routes_.begin(), routes_.end(),
                                    [&](const Route& route) { return route.path == request.path; });
  std::string allowed;
  for (const Route& route : routes_) {
    if (is_whole && route.path != request.path) continue;
    const std::optional<std::string_view> rest = route.Match(request.path);
    if (!rest || (route.key == Route::Key::kAdmin && !access_.has_admins())) continue;
    if (route.method != method) {
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.method;
      if (route.method == "GET") allowed += ", HEAD";
      continue;
    }
    context.record.endpoint = route.path;
    context.route = &route;
    context.rest = *rest;
    return true;
  }
  if (allowed.empty()) {
    std::vector<std::string_view> paths = PublicPaths();
    std::erase_if(paths, Route::IsOpen);
    context.Fail(NoSuchPath(request.path, paths));
  } else if (request.method == "OPTIONS") {
    HttpResponse response = {.status = 204, .content_type = ""};
    response.fields.emplace_back("Allow", allowed + ", OPTIONS");
    access_.AddPreflightFields(request, &response.fields);
    context.exchange.Send(std::move(response));
  } else {
    context.exchange.AddField("Allow", allowed + ", OPTIONS");
    context.Fail(
        MakeApiError(405, "method_not_allowed",
                     fmt::format("{} takes {}, not {}", ShortenedUtf8(request.path, kQuotedBytes),
                                 allowed, ShortenedUtf8(request.method, kQuotedBytes))));
  }
  return false;
}

bool Service::Authorize(RequestContext& context) {
  const Route& route = *context.route;
  const bool is_admin = route.key == Route::Key::kAdmin;
  const bool needs_key = is_admin || route.key == Route::Key::kAlways ||
                         (route.key == Route::Key::kMetrics && options_.protect_metrics);
  const bool has_key =
      is_admin ? context.holder.is_admin : context.holder.api_key || !access_.has_keys();
  if (!access_.KnowsHost(context.request)) {
    context.Fail(MakeApiError(
        403, "unknown_host",
        fmt::format("Host: {} is not a name of this server; --allowed-hosts makes it one",
                    Quoted(context.request.Field("Host")))));
  } else if (needs_key && !has_key) {
    context.exchange.AddField("WWW-Authenticate", "Bearer");
    context.Fail(
        MakeApiError(401, "invalid_api_key",
                     fmt::format("the {} key is missing or wrong: Authorization: Bearer KEY",
                                 is_admin ? "admin" : "API")));
  } else if (route.method != "GET" && !access_.IsOriginAllowed(context.request)) {
    context.Fail(
        MakeApiError(403, "origin_not_allowed",
                     fmt::format("Origin: pages of {} may not ask; --cors-origins allows them",
                                 Quoted(context.request.Field("Origin")))));
  } else if (route.method == "POST" && !IsJson(context.request)) {
    context.Fail(MakeApiError(415, "unsupported_media_type",
                              fmt::format("Content-Type: expected application/json, found {} "
                                          "(curl: -H 'Content-Type: application/json')",
                                          Quoted(context.request.Field("Content-Type")))));
  } else if (route.method == "POST" && !FindContentCoding(context.request.fields)) {
    context.exchange.AddField("Accept-Encoding", std::string(kContentCodings));
    context.Fail(MakeApiError(
        415, "unsupported_media_type",
        fmt::format("Content-Encoding: expected one of {} or none, found {}", kContentCodings,
                    Quoted(AllOfField(context.request, "Content-Encoding")))));
  } else {
    return true;
  }
  return false;
}

bool Service::FindModel(RequestContext& context) {
  context.model = ready_;
  if (context.model != nullptr) {
    const auto& of_key = context.model->api_of_key;
    context.api_model =
        of_key.empty() ? context.model->api : of_key.at(context.holder.api_key.value());
    return true;
  }
  context.Fail(MakeApiError(503, "loading",
                            fmt::format("the model is loading: {:.0f} %", 100 * load_progress_)));
  return false;
}

std::string Service::MetricsText() const {
  const ServedModel* model = ready_;
  HttpCounts counts;
  {
    const std::lock_guard lock(mutex_);
    if (http_counts_) counts = http_counts_();
  }
  if (model == nullptr) return metrics_.PrometheusText(counts, nullptr, "");
  std::optional<ConstraintMemoryUse> constraints;
  if (model->api->constraint_memory) constraints = model->api->constraint_memory();
  return metrics_.PrometheusText(counts, model->metrics, model->names.front(), constraints);
}

void Service::AnswerApiRoute(Service&, RequestContext& context) {
  ApiResult<ApiReply> reply = context.route->api_route->answer(
      *context.api_model,
      {.id = context.rest, .query = context.request.query, .body = context.body});
  if (!reply) return context.Fail(std::move(reply.error()));
  context.Send(HttpResponse{.content_type = std::string(reply->content_type),
                            .body = std::move(reply->body)});
}

void Service::Complete(RequestContext& context) {
  if (draining_) return context.Fail(ShuttingDown());
  if (options_.log_content) context.record.body = context.request.body;
  const ApiResult<ApiCall> call = context.api.prepare(context.body, *context.api_model);
  if (!call) return context.Fail(call.error());
  context.pass.reset();
  const auto& names = context.model->names;
  if (options_.strict_model_names &&
      std::find(names.begin(), names.end(), call->model) == names.end()) {
    context.Fail(UnknownModel(call->model));
    return;
  }
  if (call->n_replayed > 0) {
    context.exchange.AddField("X-Exact-Replay", fmt::format("{}", call->n_replayed));
  }
  if (!call->relaxed.empty()) context.exchange.AddField("X-Constraint-Relaxed", call->relaxed);
  GenerationTable::Entry entry(generating_, context.record.id, context.record.path,
                               context.exchange);
  Generate(*call, *context.api_model, *context.model->runner, options_.generation,
           {.exchange = context.exchange, .record = context.record, .entry = entry});
}

}  // namespace fathom::server
