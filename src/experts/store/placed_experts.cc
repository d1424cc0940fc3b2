#include "experts/store/placed_experts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "experts/balance/expert_transfer.h"
#include "model/draft/drafters.h"
#include "model/weight_pieces.h"

namespace fathom::experts {

Result<std::unique_ptr<PlacedExperts>> PlacedExperts::Create(Backend& backend,
                                                             const ModelConfig& config,
                                                             const ModelRanks& ranks,
                                                             ExpertOptions options) {
  if (!options.placement.empty()) {
    if (Status valid = CheckPlacements(options.placement, NumBlocks(config),
                                       CountExperts(config, ranks.shard));
        !valid) {
      return Unexpected(valid.error());
    }
  }
  Result<std::unique_ptr<Communicator>> own = ranks.expert->Split(0, ranks.expert->rank());
  if (!own) return Unexpected(own.error());
  return std::unique_ptr<PlacedExperts>(
      new PlacedExperts(backend, config, ranks, std::move(options), *std::move(own)));
}

PlacedExperts::PlacedExperts(Backend& backend, const ModelConfig& config, const ModelRanks& ranks,
                             ExpertOptions options, std::unique_ptr<Communicator> shipment_ranks)
    : MappedExperts(backend, config, MakeStage(ranks.shard)),
      ranks_(ranks),
      options_(std::move(options)),
      maps_(MakeReplicaMaps(options_.placement, n_blocks(), CountExperts(config, ranks.shard))),
      shipment_(std::move(shipment_ranks)),
      pieces_(static_cast<std::size_t>(n_blocks() * n_experts())) {
  for (std::int64_t block = 0; block < n_blocks(); ++block) {
    SetPresent(block, map(block).ExpertsOn(ranks_.shard.expert_rank));
  }
}

PlacedExperts& PlacedExperts::FindIn(Model& model) {
  auto* const placed = dynamic_cast<PlacedExperts*>(&model.expert_store());
  Check(placed != nullptr, "a model whose experts several ranks divide");
  return *placed;
}

void PlacedExperts::ShardWeights(ModelWeights& weights) const {
  DropOtherExperts(maps_, ranks_.shard.expert_rank, weights);
}

Status PlacedExperts::Bind(ModelWeights& weights, const BoundWeights& bound) {
  if (Status done = MappedExperts::Bind(weights, bound); !done) return done;
  memory_.emplace(backend_, options_.max_moved_bytes,
                  bound.lock ? std::optional(WeightBytes(weights)) : std::nullopt);
  Result<ExpertLoads> loads = ExpertLoads::Create(n_blocks(), n_experts(), options_.window_steps);
  if (!loads) return Unexpected(loads.error());
  loads_ = *std::move(loads);
  if (const std::span<std::byte> memory = weights.memory.bytes(); !memory.empty()) {
    for (const std::int64_t block : Blocks()) {
      for (const std::int32_t e : map(block).ExpertsOn(ranks_.shard.expert_rank)) {
        MemoryAt(block, e) = PlacedBytes(Weights(block, e), memory);
      }
    }
  }
  return {};
}

void PlacedExperts::BeginPass(ForwardPass& pass) {
  if (pass.kind == Pass::kMain) loads_->BeginStep();
}

Status PlacedExperts::BeginBlock(ForwardPass& pass, std::int64_t block) {
  Status begun = MappedExperts::BeginBlock(pass, block);
  // While the attention is computed, the links have little else to do.
  return begun ? shipment_.Start() : begun;
}

Result<ExpertLease> PlacedExperts::Acquire(std::int64_t block, Matrix<std::int32_t> ids) {
  if (Status polled = shipment_.Poll(); !polled) return Unexpected(polled.error());
  Count(block, ids);
  return MappedExperts::Acquire(block, ids);
}

// Counts the tokens that this rank computes, among tokens of all ranks.
void PlacedExperts::Count(std::int64_t block, Matrix<const std::int32_t> ids) {
  for (std::int64_t i = 0; i < ids.rows * ids.cols; ++i) {
    if (ids.data[i] != kRemoteExpert) {
      loads_->Count(block, ids.data[i]);
    }
  }
}

const ExpertWeights& PlacedExperts::Weights(std::int64_t block, std::int32_t expert) const {
  return Moe(block).experts[static_cast<std::size_t>(expert)];
}

void PlacedExperts::Switch(std::int64_t block, ReplicaMap map, std::vector<Arrival> arrivals) {
  const int mine = ranks_.shard.expert_rank;
  std::vector<ExpertWeights>& experts = Moe(block).experts;
  for (const std::int32_t gone : this->map(block).ExpertsOn(mine)) {
    if (map.IsOn(mine, gone)) continue;
    ExpertWeights& expert = experts[static_cast<std::size_t>(gone)];
    if (std::span<std::byte>& memory = MemoryAt(block, gone); !memory.empty()) {
      memory_->Free(std::exchange(memory, {}));
    } else {
      for (const std::span<const std::byte> piece : DataPieces(expert)) {
        ReleasePages(piece);
      }
    }
    expert = WithoutData(expert);
  }
  for (const auto& [arrived, memory] : arrivals) {
    ExpertWeights& expert = experts[static_cast<std::size_t>(arrived)];
    expert = BindTo(expert, memory);
    MemoryAt(block, arrived) = memory;
  }
  maps_[static_cast<std::size_t>(block)] = std::move(map);
  const std::vector<std::int32_t> here = this->map(block).ExpertsOn(mine);
  Check(std::all_of(here.begin(), here.end(),
                    [&](std::int32_t e) { return Weights(block, e).w1.data != nullptr; }),
        "weights of every expert that is here");
  SetPresent(block, here);
}

Result<BlockPlacements> GatherPlacements(const PlacedExperts& experts) {
  const std::size_t n_blocks = experts.maps().size();
  const auto n_physical = static_cast<std::size_t>(experts.map(0).counts().n_physical);
  // -1: a block of another stage.
  std::vector<std::int32_t> mine(n_blocks * n_physical, -1);
  const auto put = [&](std::size_t block) {
    const std::vector<std::int32_t>& row = experts.maps()[block].placement().physical_to_logical;
    std::copy(row.begin(), row.end(),
              mine.begin() + static_cast<std::ptrdiff_t>(block * n_physical));
  };
  for (const std::int64_t block : experts.Blocks()) {
    put(static_cast<std::size_t>(block));
  }
  const ModelRanks& ranks = experts.ranks();
  const auto n_ranks = static_cast<std::size_t>(ranks.all == nullptr ? 1 : ranks.all->size());
  std::vector<std::int32_t> all(mine.size() * n_ranks);
  if (ranks.all == nullptr) {
    all = mine;
  } else if (Status gathered = ranks.all->AllGather(std::as_bytes(std::span(mine)),
                                                    std::as_writable_bytes(std::span(all)));
             !gathered) {
    return Unexpected(gathered.error());
  }
  BlockPlacements placements;
  for (std::size_t block = 0; block < n_blocks; ++block) {
    // A model without its draft block has never moved the experts of that block.
    placements.push_back(experts.maps()[block].placement().physical_to_logical);
    for (std::size_t rank = 0; rank < n_ranks; ++rank) {
      const auto row = std::span(all).subspan(rank * mine.size() + block * n_physical, n_physical);
      if (row[0] >= 0) {
        placements.back().assign(row.begin(), row.end());
      }
    }
  }
  return placements;
}

}  // namespace fathom::experts
