// Service: maps each path to its answer. Contains everything of the server but the transport and
// the command line.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.h"
#include "server/access.h"
#include "server/body_gate.h"
#include "server/endpoints.h"
#include "server/generation.h"
#include "server/generation_table.h"
#include "server/served_request.h"
#include "server/server_metrics.h"

namespace fathom::server {

struct ServiceOptions {
  AccessOptions access;
  bool protect_metrics = false;     // /metrics demands a key, too
  bool strict_model_names = false;  // other names get 404; otherwise any name works
  bool log_content = false;         // bodies and answers are recorded
  // Bytes of bodies that are prepared concurrently: this many for bodies up to `large_body` bytes,
  // and as many for larger ones, so that usual requests do not wait for large ones.
  std::size_t prepared_bytes = std::size_t{32} << 20;
  std::size_t large_body = std::size_t{1} << 20;
  std::string version;
  GenerationOptions generation;
  // Called after each request, on its thread. May be empty.
  std::function<void(const ServedRequest&)> record;
};

// Any thread may call anything.
class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();

  // Starts a server that uses this service, which must outlive it. The function fields of `options`
  // are set here. Errors: HttpServer::Listen.
  Result<std::unique_ptr<HttpServer>> Listen(HttpServerOptions options);

  // See HttpHandler.
  void Handle(const HttpRequest& request, HttpExchange& exchange) {
    static_cast<void>(Serve(request, exchange, Part::kWhole));
  }
  // See HttpHeadHandler. Answers like Handle, unless the answer depends on the body: a client that
  // may not use the server cannot make it hold a body.
  bool AnswerHead(const HttpRequest& head, HttpExchange& exchange) {
    return Serve(head, exchange, Part::kHead);
  }
  // Returns whether the request checks the state of the server, or administers it:
  // HttpServerOptions::is_vital.
  bool IsVital(const HttpRequest& head) const;
  // See HttpRefusalHandler. Answers in the form of the API of the request, as far as the head has
  // been read.
  HttpResponse AnswerRefusal(const HttpRequest& request, const HttpRefusal& refusal) const;

  // Returns the paths that clients without an admin key may know, once for each method. A path that
  // ends with '/' matches all paths that begin with it, "{id}" matches any text without '/'.
  std::vector<std::string_view> PublicPaths() const;

  // Sets the loaded share, 0 to 1, for /health, while there is no model yet.
  void SetLoadProgress(double share) { load_progress_ = share; }
  void SetModel(ServedModel model);
  void SetHttpCounts(std::function<HttpCounts()> counts);
  // Refuses, with status 503, later requests that would generate.
  void Drain() { draining_ = true; }

 private:
  struct RequestContext;
  struct Route;
  using Answer = void (*)(Service&, RequestContext&);

  // Returns all routes; StateRoutes are the routes that need no model.
  static std::vector<Route> Routes();
  static std::vector<Route> StateRoutes();
  static std::vector<Route> ModelAdminRoutes();
  enum class Part { kHead, kWhole };
  // Returns the fields of every response to the request with that id.
  HttpFields CommonFields(const HttpRequest& request, const Api& api, const std::string& id) const;
  // Returns whether the request has been answered.
  bool Serve(const HttpRequest& request, HttpExchange& exchange, Part part);
  // Each returns false if it has refused the request, for which the head is enough: FindRoute sets
  // context.route, Authorize checks who may use the route.
  bool FindRoute(RequestContext& context);
  bool Authorize(RequestContext& context);
  // Sets context.model. Returns false if there is none; the client has then received an error.
  bool FindModel(RequestContext& context);
  // Waits until the body may be prepared, and sets context.pass. Returns false if the client has
  // left, or the server shuts down; the request is then refused.
  bool Enter(RequestContext& context);
  std::string MetricsText() const;
  static void AnswerApiRoute(Service& service, RequestContext& context);
  void Complete(RequestContext& context);

  const ServiceOptions options_;
  const std::vector<Route> routes_;
  const Access access_;
  BodyGate small_bodies_;
  BodyGate large_bodies_;
  ServerMetrics metrics_;
  std::atomic<double> load_progress_ = 0;
  std::atomic<bool> draining_ = false;
  GenerationTable generating_;
  std::unique_ptr<const ServedModel> model_;  // set once, before ready_
  std::string openapi_;                       // set once, before ready_: with the model's limits
  std::atomic<const ServedModel*> ready_ = nullptr;
  mutable std::mutex mutex_;
  std::function<HttpCounts()> http_counts_;  // guarded
};

}  // namespace fathom::server
