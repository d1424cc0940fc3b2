// EngineMetrics: what the engine counts, for /metrics, for the summary of a batch, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace fathom {

// Tokens that are drafted ahead at most.
inline constexpr int kMaxDraftDepth = 4;

// Everything at one moment.
struct MetricsSnapshot {
  // Now.
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t kv_bytes_total = 0;
  std::int64_t kv_bytes_used = 0;    // by sequences that run
  std::int64_t kv_bytes_cached = 0;  // by the prefix cache alone
  // Since the start.
  std::int64_t requests = 0;
  std::int64_t finished = 0;
  std::int64_t cancelled = 0;
  std::int64_t failed = 0;
  std::int64_t refused = 0;        // by Submit
  std::int64_t prompt_tokens = 0;  // computed
  std::int64_t cached_tokens = 0;  // of prompts, not computed because they were cached
  std::int64_t generated_tokens = 0;
  std::int64_t evicted_blocks = 0;
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  double step_seconds = 0;    // of all steps
  double engine_seconds = 0;  // of those, outside the model
  // Of experts that moved between ranks: all rebalancings, and what the last one came to, as the
  // busiest rank's load over the mean; 0: there was none.
  std::int64_t rebalances = 0;
  std::int64_t moved_experts = 0;
  std::int64_t moved_expert_bytes = 0;
  double rebalance_seconds = 0;  // that steps have waited for them
  double imbalance_before = 0;
  double imbalance_after = 0;
  // By depth, the first drafted token first: how many were verified, how many were right.
  std::array<std::int64_t, kMaxDraftDepth> drafted = {};
  std::array<std::int64_t, kMaxDraftDepth> accepted = {};
};

// Written by the engine's thread, read by any.
class EngineMetrics {
 public:
  EngineMetrics();
  ~EngineMetrics();

  // --- The engine's thread ---
  void CountSubmitted();  // any thread
  void CountRefused();    // any thread
  void CountFinished();
  void CountCancelled();
  void CountFailed();
  void CountPreemption();
  void CountEvicted(std::int64_t n_blocks);
  void CountCachedTokens(std::int64_t n_tokens);
  void CountDraft(std::int64_t depth, bool accepted);  // depth 0 is the first drafted token
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
  void ObserveFirstToken(double seconds);  // since it was submitted
  void ObserveInterToken(double seconds);
  void SetGauges(std::int64_t running, std::int64_t waiting);
  void SetMemory(std::int64_t total, std::int64_t used, std::int64_t cached);

  // --- Any thread ---
  MetricsSnapshot Snapshot() const;
  // The text format of Prometheus, version 0.0.4: the above as fathom_*, with histograms of step
  // time, time to the first token and time between tokens.
  std::string PrometheusText() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
