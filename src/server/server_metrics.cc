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

#include "base/process_usage.h"

namespace fathom::server {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;
using Label = prometheus::ClientMetric::Label;
using prometheus::MetricFamily;
using prometheus::MetricType;

// See docs/spec/serving.md section 12.
const Bounds kLatencyBounds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Bounds kSecondsPerTokenBounds = {.01, .025, .05, .075, .1, .15, .2, .3, .4,
                                       .5,  .75,  1,   2.5,  5,  7.5, 10, 20, 40};
const Bounds kCompileBounds = {.0001, .0002, .0005, .001, .002, .005, .01,
                               .02,   .05,   .1,    .2,   .5,   1,    2};
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
  std::string_view kind;  // label `kind` of the metric, part of vLLM's name; "": any
  const char* vllm;
};

// vLLM's word for the end of an answer; an answer with calls ends like any stop.
constexpr std::pair<std::string_view, std::string_view> kFinishReasons[] = {{"tool_calls", "stop"},
                                                                            {"cancelled", "abort"}};

constexpr CommonName kCommonNames[] = {
    {"fathom_running", "", "vllm:num_requests_running"},
    {"fathom_waiting", "", "vllm:num_requests_waiting"},
    {"fathom_preemptions_total", "", "vllm:num_preemptions_total"},
    {"fathom_tokens_total", "cached", "vllm:prefix_cache_hits_total"},
    {"fathom_tokens_total", "generated", "vllm:generation_tokens_total"},
    {"fathom_time_to_first_token_seconds", "", "vllm:time_to_first_token_seconds"},
    {"fathom_inter_token_seconds", "", "vllm:inter_token_latency_seconds"},
    {"fathom_inter_token_seconds", "", "vllm:time_per_output_token_seconds"},  // its old name
    {"fathom_request_success_total", "", "vllm:request_success_total"},
    {"fathom_request_latency_seconds", "", "vllm:e2e_request_latency_seconds"},
    {"fathom_request_queue_seconds", "", "vllm:request_queue_time_seconds"},
    {"fathom_request_prefill_seconds", "", "vllm:request_prefill_time_seconds"},
    {"fathom_request_decode_seconds", "", "vllm:request_decode_time_seconds"},
    {"fathom_request_inference_seconds", "", "vllm:request_inference_time_seconds"},
    {"fathom_request_seconds_per_token", "", "vllm:request_time_per_output_token_seconds"},
    {"fathom_request_longest_choice_tokens", "", "vllm:request_max_num_generation_tokens"},
    {"fathom_request_prompt_tokens", "", "vllm:request_prompt_tokens"},
    {"fathom_request_generated_tokens", "", "vllm:request_generation_tokens"},
};

// Returns `family` under vLLM's name for it.
MetricFamily Rename(const MetricFamily& family, const CommonName& name, const Label& model) {
  MetricFamily renamed = {
      .name = name.vllm, .help = family.help, .type = family.type, .metric = {}};
  for (prometheus::ClientMetric metric : family.metric) {
    if (!name.kind.empty()) {
      if (metric.label.front().value != name.kind) continue;
      metric.label.clear();
    }
    metric.label.insert(metric.label.begin(), model);
    Label& last = metric.label.back();
    for (const auto& [ours, theirs] : kFinishReasons) {
      if (last.name == "finished_reason" && last.value == ours) last.value = theirs;
    }
    const auto same = std::find_if(
        renamed.metric.begin(), renamed.metric.end(),
        [&](const prometheus::ClientMetric& other) { return other.label == metric.label; });
    if (same != renamed.metric.end()) {
      same->counter.value += metric.counter.value;
    } else {
      renamed.metric.push_back(std::move(metric));
    }
  }
  return renamed;
}

// Makes a family with one metric; `value` is a number.
MetricFamily One(const char* name, const char* help, auto value) {
  const bool is_counter = std::string_view(name).ends_with("_total");
  prometheus::ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  metric.gauge.value = static_cast<double>(value);
  return {.name = name,
          .help = help,
          .type = is_counter ? MetricType::Counter : MetricType::Gauge,
          .metric = {std::move(metric)}};
}

// Returns the metrics of the process, under the names that all exporters use.
std::vector<MetricFamily> ProcessFamilies() {
  const ProcessUsage usage = UsageOfThisProcess();
  return {
      One("process_cpu_seconds_total", "Processor time, user and system.", usage.cpu_seconds),
      One("process_start_time_seconds", "Start of the process since 1970.", usage.start_seconds),
      One("process_virtual_memory_bytes", "Size of the address space, mapped files included.",
          usage.virtual_bytes),
      One("process_resident_memory_bytes", "Memory in use, pages of mapped files included.",
          usage.resident_bytes),
      One("process_open_fds", "Open file descriptors.", usage.open_descriptors),
      One("process_max_fds", "Limit of open file descriptors.", usage.max_descriptors)};
}

// Appends the metrics of vLLM that are not ours under another name.
void AppendDerived(const MetricsSnapshot& now, const Label& model,
                   std::vector<MetricFamily>* families) {
  const auto append = [&](const char* name, const char* help, auto value,
                          std::vector<Label> labels = {}) {
    MetricFamily one = One(name, help, value);
    one.metric[0].label = std::move(labels);
    one.metric[0].label.insert(one.metric[0].label.begin(), model);
    if (families->back().name == name) {
      families->back().metric.push_back(std::move(one.metric[0]));
    } else {
      families->push_back(std::move(one));
    }
  };
  const auto sum = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  const auto bytes = static_cast<double>(std::max<std::int64_t>(now.kv_bytes_total, 1));
  const std::int64_t prompt_tokens = now.prompt_tokens + now.cached_tokens;
  append("vllm:prompt_tokens_total", "Tokens of prompts, computed or found in the cache.",
         prompt_tokens);
  const char* const usage_help = "Share of the memory for keys and values that sequences use.";
  for (const char* name : {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}) {  // old name
    append(name, usage_help, static_cast<double>(now.kv_bytes_used) / bytes);
  }
  append("vllm:prefix_cache_queries_total", "Tokens of prompts that the cache was searched for.",
         prompt_tokens);
  // Includes drafts of the head and looked-up ones.
  append("vllm:spec_decode_num_drafts_total", "Drafts verified.",
         now.drafted[0] + now.looked_up[0]);
  append("vllm:spec_decode_num_draft_tokens_total", "Drafted tokens verified.",
         sum(now.drafted) + sum(now.looked_up));
  append("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.",
         sum(now.accepted) + sum(now.accepted_lookups));
  const auto at = [](const std::vector<std::int64_t>& counts, std::size_t i) {
    return i < counts.size() ? counts[i] : 0;
  };
  for (std::size_t i = 0; i < std::max(now.accepted.size(), now.accepted_lookups.size()); ++i) {
    append("vllm:spec_decode_num_accepted_tokens_per_pos_total",
           "Drafted tokens accepted, by position in the draft.",
           at(now.accepted, i) + at(now.accepted_lookups, i), {{"position", std::to_string(i)}});
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
  prometheus::Histogram& prefill =
      AddHistogram(registry, "fathom_request_prefill_seconds",
                   "From the first step of a request to its first token.", kLatencyBounds);
  prometheus::Histogram& decode =
      AddHistogram(registry, "fathom_request_decode_seconds",
                   "From the first token of a request to its end.", kLatencyBounds);
  prometheus::Histogram& inference =
      AddHistogram(registry, "fathom_request_inference_seconds",
                   "From the first step of a request to its end.", kLatencyBounds);
  prometheus::Histogram& seconds_per_token =
      AddHistogram(registry, "fathom_request_seconds_per_token",
                   "Mean time between two tokens of an answer.", kSecondsPerTokenBounds);
  prometheus::Histogram& longest_choice =
      AddHistogram(registry, "fathom_request_longest_choice_tokens",
                   "Tokens of the longest choice of a request.", kTokenBounds);
  prometheus::Histogram& prompt_tokens =
      AddHistogram(registry, "fathom_request_prompt_tokens", "Tokens of prompts.", kTokenBounds);
  prometheus::Histogram& generated_tokens =
      AddHistogram(registry, "fathom_request_generated_tokens",
                   "Tokens of answers, of all choices of a request.", kTokenBounds);
  prometheus::Counter& replays =
      AddCounters(registry, "fathom_exact_replay_hits_total",
                  "Earlier answers that prompts had token by token as they were written.")
          .Add({});
  prometheus::Histogram& compile =
      AddHistogram(registry, "fathom_constraint_compile_seconds",
                   "Compiling the constraint of a request, or finding it.", kCompileBounds);
  prometheus::Family<prometheus::Counter>& refused_constraints =
      AddCounters(registry, "fathom_constraints_refused_total",
                  "Requests whose constraint was refused or has failed, by reason.");
  prometheus::Gauge& connections =
      AddGauge(registry, "fathom_http_connections", "Connections that are open.");
  prometheus::Gauge& handling =
      AddGauge(registry, "fathom_http_handling", "Connections whose request is being answered.");
  prometheus::Gauge& body_bytes =
      AddGauge(registry, "fathom_http_body_bytes", "Bytes of request bodies that are held.");
};

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::Count(const ServedRequest& record) {
  impl_->requests.Add({{"endpoint", record.endpoint}, {"status", std::to_string(record.status)}})
      .Increment();
  if (!record.constraint_error.empty()) {
    impl_->refused_constraints.Add({{"reason", record.constraint_error}}).Increment();
  }
  if (!record.generates) return;
  if (record.has_constraint) impl_->compile.Observe(record.compile_seconds);
  const bool is_error = record.finish.empty() || record.finish == "error";
  impl_->finished.Add({{"finished_reason", is_error ? "error" : record.finish}}).Increment();
  impl_->turn_stops.Increment(record.turn_stops);
  impl_->latency.Observe(record.seconds);
  impl_->queue.Observe(record.times.queue_seconds);
  impl_->prefill.Observe(record.times.prefill_seconds);
  impl_->decode.Observe(record.times.decode_seconds);
  impl_->inference.Observe(record.times.prefill_seconds + record.times.decode_seconds);
  impl_->longest_choice.Observe(static_cast<double>(record.longest_choice));
  if (record.longest_choice > 1) {
    impl_->seconds_per_token.Observe(record.times.decode_seconds /
                                     static_cast<double>(record.longest_choice - 1));
  }
  impl_->replays.Increment(static_cast<double>(record.n_replayed));
  impl_->prompt_tokens.Observe(static_cast<double>(record.usage.prompt_tokens));
  impl_->generated_tokens.Observe(static_cast<double>(record.usage.completion_tokens));
}

std::string ServerMetrics::PrometheusText(
    const HttpCounts& connections, const EngineMetrics* engine, std::string_view model_name,
    const std::optional<ConstraintMemoryUse>& constraints) const {
  impl_->connections.Set(static_cast<double>(connections.connections));
  impl_->handling.Set(static_cast<double>(connections.handling));
  impl_->body_bytes.Set(static_cast<double>(connections.body_bytes));
  std::vector<MetricFamily> families = impl_->registry.Collect();
  families.push_back(
      One("fathom_http_refused_total", "Connections that a limit has ended.", connections.refused));
  if (constraints) {
    families.push_back(One("fathom_constraint_memory_bytes",
                           "Memory of grammars, automata and masks of constraints.",
                           constraints->used));
    families.push_back(One("fathom_constraint_memory_limit_bytes",
                           "Most of that memory (--constraint-memory).", constraints->limit));
  }
  std::vector<MetricFamily> process = ProcessFamilies();
  std::move(process.begin(), process.end(), std::back_inserter(families));
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

}  // namespace fathom::server
