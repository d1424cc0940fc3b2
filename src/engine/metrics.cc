#include "engine/metrics.h"

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/prompt_lookup.h"
#include "model/draft/drafters.h"

namespace fathom::engine {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Bounds in seconds, two to four per decade. A step is between 1 ms (a few rows of a small model)
// and 30 s (a long prompt on few cores); the engine's own part should stay below a millisecond.
const std::initializer_list<double> kStepBounds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30};
const std::initializer_list<double> kOverheadBounds = {
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1};
const std::initializer_list<double> kFirstTokenBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                         2.5,  5,     10,   25,  60,   150, 600};

struct LabelledValue {
  LabelledValue(std::vector<ClientMetric::Label> of, std::int64_t number)
      : LabelledValue(std::move(of), static_cast<double>(number)) {}
  LabelledValue(std::vector<ClientMetric::Label> of, double number)
      : labels(std::move(of)), value(number) {}

  std::vector<ClientMetric::Label> labels;
  double value;
};

MetricFamily Family(const char* name, const char* help, MetricType type,
                    const std::vector<LabelledValue>& values) {
  MetricFamily family{.name = name, .help = help, .type = type, .metric = {}};
  for (const LabelledValue& value : values) {
    ClientMetric metric;
    metric.label = value.labels;
    metric.counter.value = value.value;
    metric.gauge.value = value.value;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

MetricFamily Counters(const char* name, const char* help,
                      const std::vector<LabelledValue>& values) {
  return Family(name, help, MetricType::Counter, values);
}

MetricFamily Gauges(const char* name, const char* help, const std::vector<LabelledValue>& values) {
  return Family(name, help, MetricType::Gauge, values);
}

std::vector<LabelledValue> DraftValues(const std::vector<std::int64_t>& verified,
                                       const std::vector<std::int64_t>& accepted) {
  std::vector<LabelledValue> values;
  for (std::size_t i = 0; i < verified.size(); ++i) {
    const std::string depth = std::to_string(i + 1);
    values.push_back({{{"depth", depth}, {"result", "accepted"}}, accepted[i]});
    values.push_back({{{"depth", depth}, {"result", "rejected"}}, verified[i] - accepted[i]});
  }
  return values;
}

void CountVerified(std::vector<std::int64_t>& verified, std::vector<std::int64_t>& right,
                   std::int64_t depth, bool is_right) {
  Check(depth >= 0 && depth < std::ssize(verified), "depth of a drafted token");
  ++verified[static_cast<std::size_t>(depth)];
  if (is_right) ++right[static_cast<std::size_t>(depth)];
}

std::vector<LabelledValue> ImbalanceValues(const MetricsSnapshot& now) {
  if (now.rebalances == 0) return {};
  return {{{{"when", "before"}}, now.imbalance_before}, {{{"when", "after"}}, now.imbalance_after}};
}

// Returns all metrics except the histograms.
std::vector<MetricFamily> Families(const MetricsSnapshot& now) {
  return {
      Gauges("fathom_running", "Sequences in the current step.", {{{}, now.running}}),
      Gauges("fathom_waiting", "Sequences that wait for memory or a slot.", {{{}, now.waiting}}),
      Gauges("fathom_kv_bytes",
             "Memory for keys and values: used by sequences that run, held by the prefix cache "
             "alone, free.",
             {{{{"state", "used"}}, now.kv_bytes_used},
              {{{"state", "cached"}}, now.kv_bytes_cached},
              {{{"state", "free"}}, now.kv_bytes_total - now.kv_bytes_used - now.kv_bytes_cached}}),
      Counters("fathom_requests_submitted_total", "Requests accepted.", {{{}, now.requests}}),
      Counters("fathom_requests_total", "Requests that ended, by how.",
               {{{{"outcome", "finished"}}, now.finished},
                {{{"outcome", "cancelled"}}, now.cancelled},
                {{{"outcome", "failed"}}, now.failed},
                {{{"outcome", "refused"}}, now.refused}}),
      Counters("fathom_tokens_total",
               "Tokens: of prompts and computed, of prompts and found in the cache, generated.",
               {{{{"kind", "prompt"}}, now.prompt_tokens},
                {{{"kind", "cached"}}, now.cached_tokens},
                {{{"kind", "generated"}}, now.generated_tokens}}),
      Counters("fathom_evicted_blocks_total", "Blocks evicted from the prefix cache.",
               {{{}, now.evicted_blocks}}),
      Counters("fathom_preemptions_total", "Sequences that were preempted to free memory.",
               {{{}, now.preemptions}}),
      Counters("fathom_draft_tokens_total",
               "Drafted tokens that were verified, by their index in the draft.",
               DraftValues(now.drafted, now.accepted)),
      Counters("fathom_lookup_tokens_total",
               "Tokens looked up in the text of their sequence that were verified, by their index.",
               DraftValues(now.looked_up, now.accepted_lookups)),
      Counters("fathom_expert_rebalances_total", "Rebalancings of experts among the ranks.",
               {{{}, now.rebalances}}),
      Counters("fathom_expert_moved_total", "Experts that were sent to another rank.",
               {{{}, now.moved_experts}}),
      Counters("fathom_expert_moved_bytes_total", "Bytes of the experts that were sent.",
               {{{}, now.moved_expert_bytes}}),
      Counters("fathom_expert_rebalance_seconds_total",
               "Time that steps have waited for experts to be placed and sent.",
               {{{}, now.rebalance_seconds}}),
      Gauges("fathom_expert_imbalance",
             "Load of the busiest rank over the mean, before and after the last rebalancing.",
             ImbalanceValues(now)),
      Counters("fathom_constraint_masks_total", "Masks of constraints that were computed.",
               {{{}, now.masks}}),
      Counters("fathom_constraint_mask_seconds_total",
               "Processor time in which threads have computed masks of constraints.",
               {{{}, now.mask_seconds}}),
      Counters("fathom_constraint_slow_masks_total",
               "Masks that took long, and were computed with the least priority.",
               {{{}, now.slow_masks}}),
      Counters("fathom_constraint_late_masks_total",
               "Sequences that sat out a step because their mask was late.",
               {{{}, now.late_masks}}),
  };
}

std::vector<MetricFamily> StreamingFamilies(const StreamingCounts& now) {
  const auto by_layers = [](std::int64_t hash, std::int64_t learned) -> std::vector<LabelledValue> {
    return {{{{"layers", "hash"}}, hash}, {{{"layers", "learned"}}, learned}};
  };
  return {
      Counters("fathom_streamed_expert_uses_total",
               "Uses of experts that are streamed from disk, once per layer and step.",
               by_layers(now.hash_uses, now.learned_uses)),
      Counters("fathom_streamed_expert_hits_total",
               "Uses of experts that were in memory and had not been read for that use.",
               by_layers(now.hash_hits, now.learned_hits)),
      Counters("fathom_streamed_expert_reads_total", "Experts that were read from disk.",
               {{{}, now.read_experts}}),
      Counters("fathom_streamed_expert_read_bytes_total", "Bytes that were read from disk.",
               {{{}, now.read_bytes}}),
      Counters("fathom_streamed_expert_ahead_total",
               "Experts whose reads began before their layer ran.", {{{}, now.ahead_experts}}),
      Counters("fathom_streamed_expert_ahead_used_total", "Those that their layer used.",
               {{{}, now.ahead_used}}),
      Counters("fathom_streamed_expert_guesses_total",
               "Experts not in memory that were guessed for the next layer.",
               {{{}, now.guesses.experts}}),
      Counters("fathom_streamed_expert_guesses_useful_total", "Those that this layer chose.",
               {{{}, now.guesses.useful}}),
      Counters("fathom_streamed_expert_guess_reads_total",
               "Reads of guessed experts that were asked for.", {{{}, now.guesses.reads}}),
      Counters("fathom_streamed_expert_guess_reads_withdrawn_total",
               "Those that were taken back before they began.", {{{}, now.guesses.withdrawn}}),
      Counters("fathom_streamed_expert_failed_reads_total",
               "Reads of experts that have failed after all tries.", {{{}, now.failed_reads}}),
      Counters("fathom_streamed_expert_stall_seconds_total",
               "Time that steps have waited for the disk.", {{{}, now.stall_seconds}}),
      Counters("fathom_streamed_expert_stall_busy_seconds_total",
               "The part of that time with at least one read in flight.",
               {{{}, now.stall_busy_seconds}}),
      Counters("fathom_streamed_expert_stall_bytes_total",
               "Bytes of reads that have ended while a step waited for the disk.",
               {{{}, now.stall_bytes}}),
      Counters("fathom_streamed_expert_disk_busy_seconds_total",
               "Time with at least one read in flight.", {{{}, now.disk_busy_seconds}}),
      Counters("fathom_streamed_expert_policy_switches_total",
               "Changes between evicting the least recently and the least frequently used expert.",
               {{{}, now.policy_switches}}),
      Gauges("fathom_streamed_expert_slots", "Experts that the pool has room for: filled, empty.",
             {{{{"state", "filled"}}, now.used_slots},
              {{{"state", "empty"}}, now.slots - now.used_slots}}),
      Gauges("fathom_streamed_expert_pool_bytes", "Memory of the pool of experts.",
             {{{}, now.slots * now.slot_bytes}}),
  };
}

// Returns the metrics of steps of prompts that run a layer at a time, where experts are streamed.
std::vector<MetricFamily> PassFamilies(const MetricsSnapshot& now) {
  return {
      Gauges("fathom_pass_layers",
             "Layers of the step of prompts that runs now: done, and still to run.",
             {{{{"state", "done"}}, now.pass.layers_done},
              {{{"state", "left"}}, now.pass.layers - now.pass.layers_done}}),
      Gauges("fathom_pass_tokens", "Tokens of the step of prompts that runs now.",
             {{{}, now.pass_tokens}}),
      Counters("fathom_pass_pauses_total",
               "Steps of sequences that decode, between two layers of a step of prompts.",
               {{{}, now.pauses}}),
      Counters("fathom_pass_stops_total",
               "Steps of prompts that ended early, as all their requests had ended.",
               {{{}, now.stopped_passes}}),
  };
}

struct HistogramFamily {
  HistogramFamily(const char* family_name, const char* help_text,
                  std::initializer_list<double> bounds)
      : name(family_name), help(help_text), histogram(bounds) {}

  MetricFamily Collect() const {
    return {
        .name = name, .help = help, .type = MetricType::Histogram, .metric = {histogram.Collect()}};
  }

  const char* name;
  const char* help;
  Histogram histogram;
};

}  // namespace

// One mutex guards all values, so that a reader sees the values of one moment. Uncontended it costs
// less than the two histograms of a step.
struct EngineMetrics::Impl {
  mutable std::mutex mutex;
  // Guarded by mutex.
  MetricsSnapshot now;
  HistogramFamily step{"fathom_step_seconds", "Time of a step.", kStepBounds};
  HistogramFamily overhead{"fathom_engine_overhead_seconds",
                           "Time of a step outside the model: schedule, sample, deliver.",
                           kOverheadBounds};
  HistogramFamily first_token{"fathom_time_to_first_token_seconds",
                              "Time from the submission of a request to its first token.",
                              kFirstTokenBounds};
  HistogramFamily inter_token{"fathom_inter_token_seconds",
                              "Time between two tokens of a sequence.", kStepBounds};
};

EngineMetrics::EngineMetrics(std::int64_t max_draft_depth) : impl_(std::make_unique<Impl>()) {
  impl_->now.drafted.resize(static_cast<std::size_t>(max_draft_depth));
  impl_->now.accepted.resize(static_cast<std::size_t>(max_draft_depth));
  impl_->now.looked_up.resize(static_cast<std::size_t>(kMostLookups));
  impl_->now.accepted_lookups.resize(static_cast<std::size_t>(kMostLookups));
}
EngineMetrics::EngineMetrics() : EngineMetrics(GreatestDraftDepth()) {}
EngineMetrics::~EngineMetrics() = default;

void EngineMetrics::Add(std::int64_t MetricsSnapshot::*number, std::int64_t n) {
  const std::lock_guard lock(impl_->mutex);
  impl_->now.*number += n;
}

void EngineMetrics::CountMask(double seconds) {
  const std::lock_guard lock(impl_->mutex);
  ++impl_->now.masks;
  impl_->now.mask_seconds += seconds;
}

void EngineMetrics::CountDraft(std::int64_t depth, bool accepted) {
  const std::lock_guard lock(impl_->mutex);
  CountVerified(impl_->now.drafted, impl_->now.accepted, depth, accepted);
}

void EngineMetrics::CountLookup(std::int64_t depth, bool accepted) {
  const std::lock_guard lock(impl_->mutex);
  CountVerified(impl_->now.looked_up, impl_->now.accepted_lookups, depth, accepted);
}

void EngineMetrics::CountStep(const StepCounts& step) {
  // The times come from clock readings at several places, so the difference can be below zero.
  const double engine_seconds = std::max(step.seconds - step.model_seconds, 0.0);
  const std::lock_guard lock(impl_->mutex);
  MetricsSnapshot& now = impl_->now;
  ++now.steps;
  now.prompt_tokens += step.prompt_tokens;
  now.generated_tokens += step.generated_tokens;
  now.step_seconds += step.seconds;
  now.engine_seconds += engine_seconds;
  impl_->step.histogram.Observe(step.seconds);
  impl_->overhead.histogram.Observe(engine_seconds);
}

void EngineMetrics::CountRebalance(const Rebalance& rebalance) {
  const std::lock_guard lock(impl_->mutex);
  MetricsSnapshot& now = impl_->now;
  ++now.rebalances;
  now.moved_experts += rebalance.moved_experts;
  now.moved_expert_bytes += rebalance.moved_bytes;
  now.rebalance_seconds += rebalance.seconds;
  now.imbalance_before = rebalance.imbalance_before;
  now.imbalance_after = rebalance.imbalance_after;
}

void EngineMetrics::SetPass(const PassProgress& progress, std::int64_t n_tokens) {
  const std::lock_guard lock(impl_->mutex);
  impl_->now.pass = progress;
  impl_->now.pass_tokens = n_tokens;
}

void EngineMetrics::ObserveFirstToken(double seconds) {
  const std::lock_guard lock(impl_->mutex);
  impl_->first_token.histogram.Observe(seconds);
}

void EngineMetrics::ObserveInterToken(double seconds) {
  const std::lock_guard lock(impl_->mutex);
  impl_->inter_token.histogram.Observe(seconds);
}

void EngineMetrics::SetGauges(std::int64_t running, std::int64_t waiting) {
  const std::lock_guard lock(impl_->mutex);
  impl_->now.running = running;
  impl_->now.waiting = waiting;
}

void EngineMetrics::SetMemory(std::int64_t total, std::int64_t used, std::int64_t cached) {
  const std::lock_guard lock(impl_->mutex);
  impl_->now.kv_bytes_total = total;
  impl_->now.kv_bytes_used = used;
  impl_->now.kv_bytes_cached = cached;
}

void EngineMetrics::SetStreaming(const StreamingCounts& counts) {
  const std::lock_guard lock(impl_->mutex);
  impl_->now.streaming = counts;
}

MetricsSnapshot EngineMetrics::Snapshot() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->now;
}

std::vector<MetricFamily> EngineMetrics::Collect() const {
  MetricsSnapshot now;
  std::vector<MetricFamily> histograms;
  {
    const std::lock_guard lock(impl_->mutex);
    now = impl_->now;
    for (const HistogramFamily* family :
         {&impl_->step, &impl_->overhead, &impl_->first_token, &impl_->inter_token}) {
      histograms.push_back(family->Collect());
    }
  }
  std::vector<MetricFamily> families = Families(now);
  if (now.streaming) {
    std::ranges::move(StreamingFamilies(*now.streaming), std::back_inserter(families));
    std::ranges::move(PassFamilies(now), std::back_inserter(families));
  }
  std::move(histograms.begin(), histograms.end(), std::back_inserter(families));
  return families;
}

std::string EngineMetrics::PrometheusText() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

}  // namespace fathom::engine
