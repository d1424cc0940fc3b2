// Options of a run of a model: plain values with defaults. Errors about them use the names of the
// options on the command line of fathom.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/weight_memory.h"
#include "experts/streaming/guess_policy.h"
#include "kernels/execution_paths.h"
#include "kernels/gpu_module.h"
#include "model/host_expert_choice.h"

namespace fathom::planning {

// Values in the environment of this process from a program that starts processes with MPI.
struct MpiStart {
  std::optional<int> n_ranks{};  // missing: unknown
  int rank = 0;
};

// The division of the model among the ranks of a run (runtime/rank_process.h).
struct RankOptions {
  std::string link;  // from the launcher; empty: none
  // Missing: this process was not started by MPI, or is alone.
  std::optional<MpiStart> mpi{};
  int n_tensor = 0;  // 0: all ranks of a stage, or 1 with dp_attention
  int n_stages = 1;
  int n_expert = 0;           // 1 or all ranks of a stage; 0: all, if they can divide the experts
  bool dp_attention = false;  // the ranks of a stage have their own sequences
  bool decode_context_parallel = false;  // each tensor rank caches only some of the compressed rows
  std::string expert_exchange;           // "fused" or "gather"; empty: fused if possible
  std::int64_t n_redundant_experts = 0;
  std::int64_t eplb_interval = 0;               // tokens; 0: experts do not move
  std::filesystem::path expert_placement;       // the initial placement; empty: the default one
  std::filesystem::path save_expert_placement;  // written after rebalancings; empty: none
  bool is_one() const { return link.empty() && !mpi; }
};

// The machine and the limits of a run.
struct RunOptions {
  std::filesystem::path model;  // empty: the embedded model
  std::string backend = "cpu";  // the names are in kernels/registry.h
  std::optional<int> device{};  // number of a GPU (GpuModule); missing: 0
  GpuDriverOptions gpu_driver{};
  ExecutionPaths paths{};
  // Chooses what computes the experts for which a GPU has no memory.
  HostExpertChoice host_experts = HostExpertChoice::kAuto;
  int n_threads = 1;                      // >= 1
  std::string cpu_isa;                    // "scalar", "avx2" ... (isa.h); empty: the best available
  std::optional<std::int64_t> n_context;  // tokens; missing: the caller's default (ContextLength)
  bool can_profile = false;               // make a backend that can be profiled (Profiler)
  bool pin = false;                       // bind each thread to a physical core
  std::vector<int> processors{};          // bind the n_threads threads to these; empty: see `pin`
  WeightMemory weights{};
  // The bytes that the model, or each of its ranks, may use; weights that do not fit are streamed
  // from disk. Missing: the usable memory (base/usable_memory.h) if one process computes on the
  // CPU; with several ranks nothing is streamed then.
  std::optional<std::int64_t> memory{};
  // The bytes that this process will need for its own work beside the model.
  std::int64_t memory_beside = 0;
  // A directory with copies of the shards on another drive, from which experts that do not fit are
  // read, too; empty: none.
  std::filesystem::path mirror{};
  // The folder that keeps the counts of uses of streamed experts from run to run; empty: none.
  std::filesystem::path expert_heat{};
  GuessMode expert_guesses = GuessMode::kAuto;  // prefetching of streamed experts by guesses
  RankOptions ranks{};
};

inline constexpr std::int64_t kDefaultBatchTokens = 512;

// Limits and caches of the engine.
struct ServingOptions {
  // The tokens of a step; >= 1. Missing: kDefaultBatchTokens, or more if experts are read from
  // disk, because each is read once per step (PlanLongSteps).
  std::optional<std::int64_t> max_batch_tokens;
  std::int64_t max_sequences = 1;               // the most running sequences; >= 1
  std::int64_t max_waiting = 4096;              // waiting requests; more are refused
  std::optional<std::int64_t> kv_memory_bytes;  // bytes of all caches; missing: DefaultKvMemory
  std::filesystem::path kv_disk;                // directory for cached blocks; empty: none
  std::int64_t kv_disk_bytes = std::int64_t{16} << 30;
  bool prefix_cache = true;
  // 0: no drafts; 1 to the depth of the drafter: always this many; missing: as many as pay if the
  // checkpoint has a head.
  std::optional<std::int64_t> draft_depth;
  // Likewise for tokens that are looked up in the text (engine/prompt_lookup.h), up to
  // kMostLookups; missing: as many as pay.
  std::optional<std::int64_t> lookup_depth = 0;
  std::optional<double> draft_acceptance;  // SimulatedAcceptance (engine/simulated_acceptance.h)
  std::filesystem::path trace;             // empty: none
};

// The speeds of a host, for predictions (planning/host_plan.h).
struct HostSpeeds {
  double disk = 3e9;     // bytes per second, with many concurrent reads of experts
  double memory = 40e9;  // bytes per second, read by all threads
  bool measured = false;
};

// Called while a model loads and runs; each may be empty.
struct RuntimeEvents {
  std::function<void(const std::string& message)> info{};  // any thread
  std::function<void(const std::string& message)> warn{};  // any thread
  // Receives the share of the model that is loaded, 0 to 1, on the thread that loads. 1 comes once.
  std::function<void(double share)> progress{};

  // Returns events whose messages begin with `prefix`; `progress` is unchanged.
  RuntimeEvents WithPrefix(const std::string& prefix) const;

  template <class... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) const {
    if (info) info(fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void Warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (warn) warn(fmt::format(format, std::forward<Args>(args)...));
  }
};

inline RuntimeEvents RuntimeEvents::WithPrefix(const std::string& prefix) const {
  using Say = std::function<void(const std::string&)>;
  const auto with_prefix = [&prefix](const Say& say) -> Say {
    if (!say || prefix.empty()) return say;
    return [say, prefix](const std::string& message) { say(prefix + message); };
  };
  return {.info = with_prefix(info), .warn = with_prefix(warn), .progress = progress};
}

}  // namespace fathom::planning
