// EngineMetrics: the engine's counters, for /metrics, for the summary of a batch, and for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/pass_progress.h"
#include "model/streaming_counts.h"

namespace prometheus {
struct MetricFamily;
}

namespace fathom::engine {

// All values at one moment.
struct MetricsSnapshot {
  // Now.
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t kv_bytes_total = 0;
  std::int64_t kv_bytes_used = 0;    // bytes used by running sequences
  std::int64_t kv_bytes_cached = 0;  // bytes held by the prefix cache alone
  // Since the start.
  std::int64_t requests = 0;
  std::int64_t finished = 0;
  std::int64_t cancelled = 0;
  std::int64_t failed = 0;
  std::int64_t refused = 0;        // requests that Submit refused
  std::int64_t prompt_tokens = 0;  // computed tokens of prompts
  std::int64_t cached_tokens = 0;  // tokens of prompts found in the prefix cache
  std::int64_t generated_tokens = 0;
  std::int64_t evicted_blocks = 0;
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  double step_seconds = 0;    // sum over all steps
  double engine_seconds = 0;  // the part of step_seconds outside the model
  // Experts migrated between ranks, over all rebalancings. The imbalance, the load of the busiest
  // rank over the mean, describes the last rebalancing; 0 if there was none.
  std::int64_t rebalances = 0;
  std::int64_t moved_experts = 0;
  std::int64_t moved_expert_bytes = 0;
  double rebalance_seconds = 0;  // time that steps waited for rebalancing
  double imbalance_before = 0;
  double imbalance_after = 0;
  std::int64_t masks = 0;       // masks of constraints
  double mask_seconds = 0;      // processor time
  std::int64_t slow_masks = 0;  // masks computed with the least priority
  std::int64_t late_masks = 0;  // times that a sequence sat out a step
  // By depth, the first drafted token first: tokens verified, and tokens accepted.
  std::vector<std::int64_t> drafted;
  std::vector<std::int64_t> accepted;
  // By depth, in the same way, for tokens that were looked up (prompt_lookup.h).
  std::vector<std::int64_t> looked_up;
  std::vector<std::int64_t> accepted_lookups;
  // The step of prompts that runs a layer at a time; no layers: there is none.
  PassProgress pass{};
  std::int64_t pass_tokens = 0;
  std::int64_t pauses = 0;          // steps that ran between two layers of such a step
  std::int64_t stopped_passes = 0;  // such steps all of whose requests ended before
  // Experts that are read from disk; nullopt: all are in memory or mapped.
  std::optional<StreamingCounts> streaming;
};

// Written by the engine's thread, read by any thread.
class EngineMetrics {
 public:
  // Each depth of drafts has its counters. Without max_draft_depth, there are as many as any
  // drafter needs.
  explicit EngineMetrics(std::int64_t max_draft_depth);
  EngineMetrics();
  ~EngineMetrics();

  // --- Any thread ---
  // Adds to a number that no other function counts.
  void Add(std::int64_t MetricsSnapshot::*number, std::int64_t n = 1);
  void CountMask(double seconds);

  // --- The engine's thread ---
  void CountDraft(std::int64_t depth, bool accepted);  // depth 0 is the first drafted token
  void CountLookup(std::int64_t depth, bool accepted);
  struct StepCounts {
    std::int64_t prompt_tokens = 0;
    std::int64_t generated_tokens = 0;
    double seconds = 0;
    double model_seconds = 0;
  };
  void CountStep(const StepCounts& step);
  struct Rebalance {
    double imbalance_before = 0;
    double imbalance_after = 0;
    std::int64_t moved_experts = 0;
    std::int64_t moved_bytes = 0;
    double seconds = 0;
  };
  void CountRebalance(const Rebalance& rebalance);
  void SetPass(const PassProgress& progress, std::int64_t n_tokens);
  void ObserveFirstToken(double seconds);  // time since the request was submitted
  void ObserveInterToken(double seconds);
  void SetGauges(std::int64_t running, std::int64_t waiting);
  void SetMemory(std::int64_t total, std::int64_t used, std::int64_t cached);
  void SetStreaming(const StreamingCounts& counts);

  // --- Any thread ---
  MetricsSnapshot Snapshot() const;
  // Returns the metrics as fathom_*, with histograms of the step time, the time to the first token
  // and the time between tokens.
  std::vector<prometheus::MetricFamily> Collect() const;
  // Returns Collect() in Prometheus' text format 0.0.4.
  std::string PrometheusText() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::engine
