// ServerMetrics: what the server counts, beside what the engine counts.
#pragma once

#include <memory>
#include <string>

#include "http/http.h"
#include "server/served_request.h"

namespace fathom {

// Any thread.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  void Count(const ServedRequest& record);

  // The text format of Prometheus, version 0.0.4: fathom_http_*, fathom_request_* and
  // fathom_turn_token_stops_total.
  std::string PrometheusText(const HttpCounts& connections) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
