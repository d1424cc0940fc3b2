#include "server/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace fathom {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;
using Label = prometheus::ClientMetric::Label;
using prometheus::MetricFamily;
using prometheus::MetricType;

// docs/spec/serving.md section 12.
const Bounds kLatencyBounds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Bounds kTokenBounds = {1,    2,    5,     10,    20,    50,     100,    200,    500, 1000,
                             2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6};

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help, const Bounds& bounds) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
}

prometheus::Family<prometheus::Counter>& AddCounters(prometheus::Registry& registry,
                                                     const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Gauge& AddGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

struct CommonName {
  std::string_view fathom;
  std::string_view kind;  // the metric's label `kind`, which vLLM has in the name; "": any metric
  const char* vllm;
};

constexpr CommonName kCommonNames[] = {
    {"fathom_running", "", "vllm:num_requests_running"},
    {"fathom_waiting", "", "vllm:num_requests_waiting"},
    {"fathom_preemptions_total", "", "vllm:num_preemptions_total"},
    {"fathom_tokens_total", "prompt", "vllm:prompt_tokens_total"},
    {"fathom_tokens_total", "cached", "vllm:prefix_cache_hits_total"},
    {"fathom_tokens_total", "generated", "vllm:generation_tokens_total"},
    {"fathom_time_to_first_token_seconds", "", "vllm:time_to_first_token_seconds"},
    {"fathom_inter_token_seconds", "", "vllm:inter_token_latency_seconds"},
    {"fathom_request_success_total", "", "vllm:request_success_total"},
    {"fathom_request_latency_seconds", "", "vllm:e2e_request_latency_seconds"},
    {"fathom_request_queue_seconds", "", "vllm:request_queue_time_seconds"},
    {"fathom_request_prompt_tokens", "", "vllm:request_prompt_tokens"},
    {"fathom_request_generated_tokens", "", "vllm:request_generation_tokens"},
};

// `family` under the name that vLLM has for it.
MetricFamily Rename(const MetricFamily& family, const CommonName& name, const Label& model) {
  MetricFamily renamed = {.name = name.vllm, .help = "", .type = family.type, .metric = {}};
  for (prometheus::ClientMetric metric : family.metric) {
    if (!name.kind.empty()) {
      if (metric.label.front().value != name.kind) continue;
      metric.label.clear();
    }
    metric.label.insert(metric.label.begin(), model);
    renamed.metric.push_back(std::move(metric));
  }
  return renamed;
}

// Appends the metrics of vLLM that are none of ours with another name.
void AppendDerived(const MetricsSnapshot& now, const Label& model,
                   std::vector<MetricFamily>* families) {
  const auto append = [&](const char* name, double value, std::vector<Label> labels = {}) {
    if (families->back().name != name) {
      const bool is_counter = std::string_view(name).ends_with("_total");
      families->push_back({.name = name,
                           .help = "",
                           .type = is_counter ? MetricType::Counter : MetricType::Gauge,
                           .metric = {}});
    }
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.label.insert(metric.label.begin(), model);
    metric.counter.value = value;
    metric.gauge.value = value;
    families->back().metric.push_back(std::move(metric));
  };
  const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
  const auto sum = [&](const auto& counts) {
    return as_double(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  };
  const std::int64_t bytes = std::max<std::int64_t>(now.kv_bytes_total, 1);
  append("vllm:kv_cache_usage_perc", as_double(now.kv_bytes_used) / as_double(bytes));
  append("vllm:prefix_cache_queries_total", as_double(now.prompt_tokens + now.cached_tokens));
  append("vllm:spec_decode_num_drafts_total", as_double(now.drafted[0]));
  append("vllm:spec_decode_num_draft_tokens_total", sum(now.drafted));
  append("vllm:spec_decode_num_accepted_tokens_total", sum(now.accepted));
  for (std::size_t i = 0; i < now.accepted.size(); ++i) {
    append("vllm:spec_decode_num_accepted_tokens_per_pos_total", as_double(now.accepted[i]),
           {{"position", std::to_string(i)}});
  }
}

}  // namespace

struct ServerMetrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      AddCounters(registry, "fathom_http_requests_total",
                  "Requests by path and status; 499: the client went away before there was one.");
  prometheus::Family<prometheus::Counter>& finished = AddCounters(
      registry, "fathom_request_success_total", "Answers that were generated, by how they ended.");
  prometheus::Counter& turn_stops =
      AddCounters(registry, "fathom_turn_token_stops_total",
                  "Answers of chats that ended because the model began somebody's turn.")
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
      AddCounters(registry, "fathom_exact_replay_hits_total",
                  "Earlier answers that prompts had token by token as they were written.")
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

std::string ServerMetrics::PrometheusText(const HttpCounts& connections,
                                          const EngineMetrics* engine,
                                          std::string_view model_name) const {
  impl_->connections.Set(static_cast<double>(connections.connections));
  impl_->handling.Set(static_cast<double>(connections.handling));
  impl_->body_bytes.Set(static_cast<double>(connections.body_bytes));
  impl_->refused.Set(static_cast<double>(connections.refused));
  std::vector<MetricFamily> families = impl_->registry.Collect();
  if (engine != nullptr) {
    std::vector<MetricFamily> engine_families = engine->Collect();
    std::move(engine_families.begin(), engine_families.end(), std::back_inserter(families));
    const Label model = {"model_name", std::string(model_name)};
    for (std::size_t i = 0, n = families.size(); i < n; ++i) {
      for (const CommonName& name : kCommonNames) {
        if (families[i].name != name.fathom || families[i].metric.empty()) continue;
        families.push_back(Rename(families[i], name, model));
      }
    }
    AppendDerived(engine->Snapshot(), model, &families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace fathom
