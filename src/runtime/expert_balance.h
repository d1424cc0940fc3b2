// Where the routed experts of a run are: at first, while it runs and in the end, by
// --expert-placement, --eplb-interval and --save-expert-placement, which is written anew after
// every rebalancing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "engine/ranks/rank_calls.h"
#include "experts/balance/expert_placement_file.h"
#include "experts/balance/expert_rebalancer.h"
#include "experts/balance/rebalance_schedule.h"
#include "model/model.h"
#include "runtime/options.h"

namespace fathom {

// All ranks call the same functions at the same time; the first one alone reads and writes files.
// One thread, that of the model.
class ExpertBalance {
 public:
  // `ranks` as RankProcess::Partition returned them. Errors: options that need ranks which share
  // the experts, where none do; a placement that cannot be read or is for something else; one that
  // could not be written.
  static Result<ExpertBalance> Create(const RankOptions& options, const ModelRanks* ranks,
                                      const ModelConfig& config, const Checkpoint& checkpoint);

  // For ModelOptions. Empty: the initial one.
  const BlockPlacements& placement() const { return placement_; }

  // The model outlives this object, which must not move any more. `events` reports what every
  // rebalancing came to.
  void Begin(Model& model, const RuntimeEvents& events);
  // Also called with every report, on the first rank. Set before the first step.
  void set_on_end(RebalanceSchedule::OnEnd on_end) { on_end_ = std::move(on_end); }
  // After a step of so many tokens. That the file cannot be written is no error yet.
  Status AfterStep(std::int64_t n_tokens);
  // AfterStep as the engine calls it; empty if there is nothing to do.
  AfterForward Hook();
  // After the last one: ends what has begun, writes the placement.
  Status Finish();

 private:
  ExpertBalance() = default;
  void End(const RebalanceReport& report);
  Result<std::string> GatherText() const;

  std::int64_t interval_ = 0;
  std::filesystem::path file_;  // to write
  bool is_first_ = true;
  PlacementOwner owner_;
  BlockPlacements placement_;
  Model* model_ = nullptr;
  RuntimeEvents events_;
  RebalanceSchedule::OnEnd on_end_;
  bool is_new_ = false;                           // the placement, since it was last written
  std::unique_ptr<ExpertRebalancer> rebalancer_;  // null: experts stay where they are
  std::unique_ptr<RebalanceSchedule> schedule_;
};

}  // namespace fathom
