// PlacedExperts: the routed experts of this rank: which they are, where their weights lie, and how
// much they have had to compute.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "kernels/backend.h"
#include "model/expert_admission.h"
#include "model/expert_loads.h"
#include "model/expert_memory.h"
#include "model/expert_placement.h"
#include "model/expert_shipment.h"
#include "model/model_ranks.h"
#include "model/weights.h"

namespace fathom {

// What matters on several expert ranks only.
struct ExpertOptions {
  BlockPlacements placement;         // empty: physical expert p holds logical p mod E
  std::int64_t window_steps = 1000;  // whose loads are remembered
  std::int64_t max_moved_bytes = 0;  // memory for experts that have moved here; 0: no limit
};

// How the routed experts of a model are cut among the expert ranks of a stage.
ExpertCounts CountsOf(const ModelConfig& config, const ModelShard& share);

// Weights stay where they are, in the files or in memory that the model has moved them to, until
// they move to another rank; where they come to, they lie in memory of this object. What they leave
// is given back, as pages of the files or as memory for others. One thread at a time. Blocks are
// numbered as the model's layers; the MTP block follows them.
class PlacedExperts {
 public:
  // An arrived expert and its weights.
  using Arrival = std::pair<std::int32_t, std::span<std::byte>>;

  // The options have been checked (CheckOptions).
  PlacedExperts(const ModelConfig& config, const ModelRanks& ranks, const ExpertOptions& options);
  // Of a model that has been narrowed to its share; all ranks together. Backend and weights outlive
  // this object, and the weights stay where they are. lock: experts that come are locked in memory,
  // as the weights are. Error: memory, or ranks that cannot be reached.
  Status Bind(Backend& backend, ModelWeights& weights, bool lock);

  // --- Within a step ---
  void BeginStep();
  // The expert rank that computes `expert` for the token at `position` of its sequence.
  int RankOf(std::int64_t block, std::int32_t position, std::int32_t expert) const {
    return map(block).RankOf(position, expert);
  }
  // Records what this rank computes, whoever's tokens they are: expert ids, or kRemoteExpert.
  void Count(std::int64_t block, Matrix<const std::int32_t> here);
  ExpertAdmission& admission() { return admission_; }
  // What is on its way between the expert ranks: every block carries some of it.
  ExpertShipment& shipment() { return *shipment_; }

  // --- Between steps ---
  const ModelRanks& ranks() const { return ranks_; }
  const ExpertOptions& options() const { return options_; }
  const std::vector<ReplicaMap>& maps() const { return maps_; }
  const ReplicaMap& map(std::int64_t block) const { return maps_[static_cast<std::size_t>(block)]; }
  // The blocks that this rank has.
  std::vector<std::int64_t> Blocks() const;
  // [experts]: tokens that each expert of this rank has computed within the window.
  std::span<const std::int64_t> Loads(std::int64_t block) const { return loads_->Of(block); }
  // Of an expert that this rank has; without bytes of another.
  const ExpertWeights& Weights(std::int64_t block, std::int32_t expert) const;

  // For experts on their way here.
  ExpertMemory& memory() { return *memory_; }
  const ExpertMemory& memory() const { return *memory_; }
  // From the next step on the block's replicas are where `map` says. `arrivals`: the experts that
  // this rank has got by that.
  void Switch(std::int64_t block, ReplicaMap map, std::vector<Arrival> arrivals);

 private:
  MoeWeights& Moe(std::int64_t block) const;
  std::span<std::byte>& MemoryAt(std::int64_t block, std::int32_t expert) {
    return pieces_[static_cast<std::size_t>(block * n_experts_ + expert)];
  }

  std::int64_t n_layers_;
  std::int64_t n_experts_;
  ModelRanks ranks_;
  ExpertOptions options_;
  std::vector<ReplicaMap> maps_;
  ExpertAdmission admission_;
  std::optional<ExpertLoads> loads_;  // on several expert ranks
  std::optional<ExpertMemory> memory_;
  std::optional<ExpertShipment> shipment_;  // to that memory
  ModelWeights* weights_ = nullptr;
  // [blocks, experts]: where an expert lies in memory; empty: in the files, or not here.
  std::vector<std::span<std::byte>> pieces_;
};

// Where the replicas of all blocks are, whichever stage has them. Called by all ranks.
Result<BlockPlacements> GatherPlacements(const PlacedExperts& experts);

}  // namespace fathom
