// PlacedExperts: the routed experts of one expert rank of several: their weights, and the number of
// tokens that they computed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "checkpoint/model_config.h"
#include "distributed/model_ranks.h"
#include "experts/balance/expert_loads.h"
#include "experts/balance/expert_placement.h"
#include "experts/balance/expert_shipment.h"
#include "experts/store/expert_memory.h"
#include "kernels/backend.h"
#include "model/mapped_experts.h"
#include "model/model.h"

namespace fathom::experts {

// Options of a model whose experts several ranks divide.
struct ExpertOptions {
  BlockPlacements placement;         // empty: physical expert p holds logical p mod E
  std::int64_t window_steps = 1000;  // steps over which loads are summed
  std::int64_t max_moved_bytes = 0;  // memory for experts that have moved here; 0: no limit
};

// Weights stay where they were bound until they move to another rank. Experts that arrive are
// stored in memory of this object; the memory of experts that leave is freed: pages of the files
// for the system, other memory for experts that arrive. One thread at a time.
class PlacedExperts : public MappedExperts {
 public:
  // An arrived expert and its weights.
  using Arrival = std::pair<std::int32_t, std::span<std::byte>>;

  // Called by all ranks together. Errors: a placement of other experts; ranks that cannot be
  // reached.
  static Result<std::unique_ptr<PlacedExperts>> Create(Backend& backend, const ModelConfig& config,
                                                       const ModelRanks& ranks,
                                                       ExpertOptions options);
  // Returns the store of a model with these experts (experts/expert_parts.h).
  static PlacedExperts& FindIn(Model& model);

  void ShardWeights(ModelWeights& weights) const override;
  Status Bind(ModelWeights& weights, const BoundWeights& bound) override;

  // --- Within a step ---
  void BeginPass(ForwardPass& pass) override;
  // Sends pieces of the moving experts while the block is computed.
  Status BeginBlock(ForwardPass& pass, std::int64_t block) override;
  Status EndBlock(std::int64_t /*block*/) override { return shipment_.Wait(); }
  Result<ExpertLease> Acquire(std::int64_t block, Matrix<std::int32_t> ids) override;
  // Returns the expert rank that computes `expert` for the token at `position` of its sequence.
  int FindRank(std::int64_t block, std::int32_t position, std::int32_t expert) const {
    return map(block).FindRank(position, expert);
  }

  // --- Between steps ---
  ExpertShipment& shipment() { return shipment_; }
  const ModelRanks& ranks() const { return ranks_; }
  const ExpertOptions& options() const { return options_; }
  const std::vector<ReplicaMap>& maps() const { return maps_; }
  const ReplicaMap& map(std::int64_t block) const { return maps_[static_cast<std::size_t>(block)]; }
  // Returns the blocks of this rank's stage.
  std::vector<std::int64_t> Blocks() const { return LocalBlocks(); }
  // Returns the tokens [experts] that each expert of this rank has computed within the window.
  std::span<const std::int64_t> Loads(std::int64_t block) const { return loads_->Of(block); }
  // Returns the weights of an expert; without data for an expert of another rank.
  const ExpertWeights& Weights(std::int64_t block, std::int32_t expert) const;

  // Returns the memory for experts that arrive.
  ExpertMemory& memory() { return *memory_; }
  const ExpertMemory& memory() const { return *memory_; }
  // Activates `map` for the next step. `arrivals`: the experts that this rank has received for that
  // map.
  void Switch(std::int64_t block, ReplicaMap map, std::vector<Arrival> arrivals);

 private:
  PlacedExperts(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                ExpertOptions options, std::unique_ptr<Communicator> shipment_ranks);
  void Count(std::int64_t block, Matrix<const std::int32_t> ids);
  std::span<std::byte>& MemoryAt(std::int64_t block, std::int32_t expert) {
    return pieces_[static_cast<std::size_t>(block * n_experts() + expert)];
  }

  ModelRanks ranks_;
  ExpertOptions options_;
  std::vector<ReplicaMap> maps_;
  std::optional<ExpertLoads> loads_;  // set by Bind, like memory_
  std::optional<ExpertMemory> memory_;
  ExpertShipment shipment_;  // moves experts to that memory
  // [blocks, experts]: the memory of an expert that arrived; empty: in the files, or not here.
  std::vector<std::span<std::byte>> pieces_;
};

// Returns the replicas of all blocks of all stages. Called by all ranks.
Result<BlockPlacements> GatherPlacements(const PlacedExperts& experts);

}  // namespace fathom::experts
