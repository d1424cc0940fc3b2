// ExpertBalance: manages the placement of the routed experts in a run: the initial placement
// (--expert-placement), its changes (--eplb-interval), and the file that is written after every
// rebalancing (--save-expert-placement).
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
#include "model/model.h"
#include "planning/options.h"

namespace fathom::runtime {

// All ranks call the same functions at the same time; only the first rank reads and writes files.
// One thread: the model's.
class ExpertBalance {
 public:
  // `ranks` must come from RankProcess::Partition. Errors: options that need ranks that share the
  // experts, if there are none; a placement that cannot be read or does not match the model; a file
  // that could not be written.
  static Result<ExpertBalance> Create(const RankOptions& options, const ModelRanks* ranks,
                                      const ModelConfig& config, const Checkpoint& checkpoint);

  // Returns the placement for ModelOptions; empty: the default.
  const BlockPlacements& placement() const { return placement_; }

  // The model must outlive this object, which must not be moved any more. `events` reports the
  // result of every rebalancing.
  void Begin(Model& model, const RuntimeEvents& events);
  // Sets a function that receives every report on the first rank. Call before the first step.
  void set_on_end(RebalanceSchedule::OnEnd on_end) { on_end_ = std::move(on_end); }
  // Call after a step of n_tokens tokens. A file that cannot be written is only a warning here.
  Status AfterStep(std::int64_t n_tokens);
  // Returns AfterStep as a hook for the engine; empty if experts do not move.
  AfterForward Hook();
  // Call after the last step: completes a rebalancing that has begun and writes the placement.
  Status Finish();

 private:
  ExpertBalance() = default;
  void End(const RebalanceReport& report);
  Result<std::string> GatherText() const;

  std::int64_t interval_ = 0;
  std::filesystem::path file_;  // the file to write
  bool is_first_ = true;
  PlacementOwner owner_;
  BlockPlacements placement_;
  Model* model_ = nullptr;
  RuntimeEvents events_;
  RebalanceSchedule::OnEnd on_end_;
  bool is_new_ = false;                           // the placement has changed since the last write
  std::unique_ptr<ExpertRebalancer> rebalancer_;  // null: experts do not move
  std::unique_ptr<RebalanceSchedule> schedule_;
};

}  // namespace fathom::runtime
