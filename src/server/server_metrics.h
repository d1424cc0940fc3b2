// ServerMetrics: counts requests and connections, and writes /metrics.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/common/api_call.h"
#include "engine/metrics.h"
#include "http/http.h"
#include "server/served_request.h"

namespace fathom::server {

// Any thread.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  void Count(const ServedRequest& record);

  // Returns the text format of Prometheus, version 0.0.4: the server's metrics (fathom_http_*,
  // fathom_request_*, ...), then the metrics of `engine`. Both follow a second time under vLLM's
  // names, for which dashboards look, with the label model_name: vllm:num_requests_running and so
  // on (docs/spec/serving.md section 12). Without an engine, returns only the server's metrics.
  std::string PrometheusText(const HttpCounts& connections, const EngineMetrics* engine,
                             std::string_view model_name,
                             const std::optional<ConstraintMemoryUse>& constraints = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::server
