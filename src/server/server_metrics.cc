#include "server/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace fathom {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;

// docs/spec/serving.md section 12.
const Bounds kLatencyBounds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Bounds kTokenBounds = {1,    2,    5,     10,    20,    50,     100,    200,    500, 1000,
                             2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6};

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help, const Bounds& bounds) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
}

prometheus::Gauge& AddGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

struct ServerMetrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("fathom_http_requests_total")
          .Help("Requests by path and status; 499: the client went away before there was one.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& finished =
      prometheus::BuildCounter()
          .Name("fathom_request_success_total")
          .Help("Answers that were generated, by how they ended.")
          .Register(registry);
  prometheus::Counter& turn_stops =
      prometheus::BuildCounter()
          .Name("fathom_turn_token_stops_total")
          .Help("Answers of chats that ended because the model began somebody's turn.")
          .Register(registry)
          .Add({});
  prometheus::Histogram& latency =
      AddHistogram(registry, "fathom_request_latency_seconds",
                   "From a request that generates to the end of its answer.", kLatencyBounds);
  prometheus::Histogram& queue = AddHistogram(registry, "fathom_request_queue_seconds",
                                              "Until the first step of a request.", kLatencyBounds);
  prometheus::Histogram& prompt_tokens =
      AddHistogram(registry, "fathom_request_prompt_tokens", "Tokens of prompts.", kTokenBounds);
  prometheus::Histogram& generated_tokens =
      AddHistogram(registry, "fathom_request_generated_tokens",
                   "Tokens of answers, of all choices of a request.", kTokenBounds);
  prometheus::Counter& replays =
      prometheus::BuildCounter()
          .Name("fathom_exact_replay_hits_total")
          .Help("Earlier answers that prompts had token by token as they were written.")
          .Register(registry)
          .Add({});
  prometheus::Gauge& connections =
      AddGauge(registry, "fathom_http_connections", "Connections that are open.");
  prometheus::Gauge& handling =
      AddGauge(registry, "fathom_http_handling", "Connections whose request is being answered.");
  prometheus::Gauge& body_bytes =
      AddGauge(registry, "fathom_http_body_bytes", "Bytes of request bodies that are held.");
  prometheus::Gauge& refused = AddGauge(registry, "fathom_http_refused",
                                        "Connections that a limit has ended since the start.");
};

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::Count(const ServedRequest& record) {
  impl_->requests.Add({{"endpoint", record.endpoint}, {"status", std::to_string(record.status)}})
      .Increment();
  if (!record.generates) return;
  const bool is_error = record.finish.empty() || record.finish == "error";
  impl_->finished.Add({{"finished_reason", is_error ? "error" : record.finish}}).Increment();
  impl_->turn_stops.Increment(record.turn_stops);
  impl_->latency.Observe(record.seconds);
  impl_->queue.Observe(record.queue_seconds);
  impl_->replays.Increment(static_cast<double>(record.n_replayed));
  impl_->prompt_tokens.Observe(static_cast<double>(record.usage.prompt_tokens));
  impl_->generated_tokens.Observe(static_cast<double>(record.usage.completion_tokens));
}

std::string ServerMetrics::PrometheusText(const HttpCounts& connections) const {
  impl_->connections.Set(static_cast<double>(connections.connections));
  impl_->handling.Set(static_cast<double>(connections.handling));
  impl_->body_bytes.Set(static_cast<double>(connections.body_bytes));
  impl_->refused.Set(static_cast<double>(connections.refused));
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace fathom
