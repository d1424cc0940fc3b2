// LoadedModel: a model that can compute, with its backend and, with several ranks, the part of the
// model that this rank has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "runtime/expert_balance.h"
#include "runtime/options.h"
#include "runtime/rank_process.h"

namespace fathom {

// Value of ModelOptions::kv_memory_bytes for the rule of DefaultKvMemory.
inline constexpr std::int64_t kDefaultKvMemory = -1;

// The options that all ranks load alike. Load sets the rest from RunOptions and the ranks.
struct LoadPlan {
  ModelOptions sizes;
  bool prefix_cache = false;
};

// Owns backend, model and expert balance; movable. One thread at a time.
class LoadedModel {
 public:
  // With several ranks, all call it with the same arguments. No thread is bound to a processor but
  // those of the backend: the thread that runs the model calls BindThread.
  static Result<LoadedModel> Load(ModelConfig config, Checkpoint checkpoint, const RunOptions& run,
                                  LoadPlan plan, RankProcess& ranks, const RuntimeEvents& events);

  Model& model() const { return *model_; }
  const Backend& backend() const { return *backend_; }
  ExpertBalance& balance() const { return *balance_; }
  // This rank's part of the model; nullptr: all of it.
  const ModelRanks* ranks() const { return ranks_; }
  double load_seconds() const { return load_seconds_; }

  // Binds the calling thread to the first of the processors. Threads started afterwards inherit
  // that.
  void BindThread() const;

  LoadedModel(LoadedModel&&) = default;
  LoadedModel& operator=(LoadedModel&&) = default;
  // Reports how much of the weights has come into memory.
  ~LoadedModel();

 private:
  LoadedModel() = default;

  std::unique_ptr<Backend> backend_;  // before the model, which must not outlive it
  std::unique_ptr<Model> model_;
  std::unique_ptr<ExpertBalance> balance_;
  const ModelRanks* ranks_ = nullptr;
  // The processors that the threads of the backend are bound to, the one that runs the model first;
  // empty: not bound.
  std::vector<int> processors_;
  double load_seconds_ = 0;
  RuntimeEvents events_;
  std::string rank_;  // in front of messages, with several ranks
};

// Positions to allocate memory for: run.n_context, or `fallback` but no more than the model has.
// Error: the model has fewer than n_context.
Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config);

// Bytes of memory for the caches of a rank by default: what all sequences need at full context
// (`full_bytes`) and, for a prefix cache, four times as much or 1 GiB more, whichever is less; at
// most half of what is available.
std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache);

}  // namespace fathom
