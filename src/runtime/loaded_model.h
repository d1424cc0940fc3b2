// LoadedModel: a model that can compute, with its backend; with several ranks, this rank's part of
// the model.
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
#include "planning/load_plan.h"
#include "planning/options.h"
#include "planning/pool_watch.h"
#include "runtime/expert_balance.h"
#include "runtime/rank_process.h"

namespace fathom::runtime {

// Owns backend, model and expert balance. Movable. One thread at a time.
class LoadedModel {
 public:
  // With several ranks, all call it with the same arguments. Binds only the backend's threads to
  // processors: the thread that runs the model must call BindThread.
  static Result<LoadedModel> Load(ModelConfig config, Checkpoint checkpoint, const RunOptions& run,
                                  LoadPlan plan, RankProcess& ranks, const RuntimeEvents& events);

  Model& model() const { return *model_; }
  Backend& backend() const { return *backend_; }
  ExpertBalance& balance() const { return *balance_; }
  // Returns the ranks that divide the model; nullptr: this process has all of it.
  const ModelRanks* ranks() const { return ranks_; }
  double load_seconds() const { return load_seconds_; }

  // Binds the calling thread to the first of the processors. Threads started afterwards inherit
  // this.
  void BindThread() const;

  LoadedModel(LoadedModel&&) = default;
  LoadedModel& operator=(LoadedModel&&) = default;
  // Reports how much of the weights is in memory.
  ~LoadedModel();

 private:
  LoadedModel() = default;

  std::unique_ptr<Backend> backend_;  // declared before the model, which must not outlive it
  std::unique_ptr<Model> model_;
  std::unique_ptr<PoolWatch> pool_watch_;  // uses the model, so after it; null: nothing streams
  std::unique_ptr<ExpertBalance> balance_;
  const ModelRanks* ranks_ = nullptr;
  // The processors to which the threads of the backend are bound; the first one is for the thread
  // that runs the model. Empty: not bound.
  std::vector<int> processors_;
  double load_seconds_ = 0;
  RuntimeEvents events_;
  std::string rank_;  // prefix of messages, with several ranks
};

}  // namespace fathom::runtime
