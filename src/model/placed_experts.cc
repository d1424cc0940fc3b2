#include "model/placed_experts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/pages.h"
#include "model/expert_transfer.h"
#include "model/weight_pieces.h"

namespace fathom {

ExpertCounts CountsOf(const ModelConfig& config, const ModelShard& share) {
  return {.n_logical = config.n_routed_experts,
          .n_physical = config.n_routed_experts + share.n_redundant_experts,
          .n_ranks = share.n_expert};
}

PlacedExperts::PlacedExperts(const ModelConfig& config, const ModelRanks& ranks,
                             const ExpertOptions& options)
    : n_layers_(config.num_hidden_layers),
      n_experts_(config.n_routed_experts),
      ranks_(ranks),
      options_(options),
      maps_(MapsOf(options.placement, n_layers_ + 1, CountsOf(config, ranks.share))),
      admission_(n_layers_ + 1, n_experts_),
      pieces_(static_cast<std::size_t>((n_layers_ + 1) * n_experts_)) {
  for (std::int64_t block = 0; block <= n_layers_; ++block) {
    admission_.SetHere(block, map(block).ExpertsOf(ranks_.share.expert_rank));
  }
}

Status PlacedExperts::Bind(Backend& backend, ModelWeights& weights, bool lock) {
  memory_.emplace(backend, options_.max_moved_bytes,
                  lock ? std::optional(WeightBytes(weights)) : std::nullopt);
  weights_ = &weights;
  if (ranks_.share.n_expert == 1) {
    shipment_.emplace(MakeSoloCommunicator());
    return {};
  }
  Result<std::unique_ptr<Communicator>> apart = ranks_.expert->Split(0, ranks_.expert->rank());
  if (!apart) {
    return Unexpected(apart.error());
  }
  shipment_.emplace(*std::move(apart));
  Result<ExpertLoads> loads = ExpertLoads::Create(n_layers_ + 1, n_experts_, options_.window_steps);
  if (!loads) {
    return Unexpected(loads.error());
  }
  loads_ = *std::move(loads);
  if (const std::span<std::byte> memory = weights.memory.bytes(); !memory.empty()) {
    for (const std::int64_t block : Blocks()) {
      for (const std::int32_t e : map(block).ExpertsOf(ranks_.share.expert_rank)) {
        MemoryAt(block, e) = MemoryOf(Weights(block, e), memory);
      }
    }
  }
  return {};
}

void PlacedExperts::BeginStep() {
  if (loads_) {
    loads_->BeginStep();
  }
}

void PlacedExperts::Count(std::int64_t block, Matrix<const std::int32_t> here) {
  if (!loads_) {
    return;
  }
  for (std::int64_t i = 0; i < here.rows * here.cols; ++i) {
    if (here.data[i] != kRemoteExpert) {
      loads_->Count(block, here.data[i]);
    }
  }
}

std::vector<std::int64_t> PlacedExperts::Blocks() const {
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = ranks_.share.first_layer; i < ranks_.share.end_layer; ++i) {
    blocks.push_back(i);
  }
  if (ranks_.share.is_last_stage() && weights_->mtp) {
    blocks.push_back(n_layers_);
  }
  return blocks;
}

MoeWeights& PlacedExperts::Moe(std::int64_t block) const {
  return block == n_layers_ ? weights_->mtp->block.ffn
                            : weights_->layers[static_cast<std::size_t>(block)].ffn;
}

const ExpertWeights& PlacedExperts::Weights(std::int64_t block, std::int32_t expert) const {
  return Moe(block).experts[static_cast<std::size_t>(expert)];
}

void PlacedExperts::Switch(std::int64_t block, ReplicaMap map, std::vector<Arrival> arrivals) {
  const int mine = ranks_.share.expert_rank;
  std::vector<ExpertWeights>& experts = Moe(block).experts;
  for (const std::int32_t gone : this->map(block).ExpertsOf(mine)) {
    if (map.IsOn(mine, gone)) {
      continue;
    }
    ExpertWeights& expert = experts[static_cast<std::size_t>(gone)];
    if (std::span<std::byte>& memory = MemoryAt(block, gone); !memory.empty()) {
      memory_->GiveBack(std::exchange(memory, {}));
    } else {
      for (const std::span<const std::byte> piece : PiecesOf(expert)) {
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
  const std::vector<std::int32_t> here = this->map(block).ExpertsOf(mine);
  Check(std::all_of(here.begin(), here.end(),
                    [&](std::int32_t e) { return Weights(block, e).w1.data != nullptr; }),
        "weights of every expert that is here");
  admission_.SetHere(block, here);
}

Result<BlockPlacements> GatherPlacements(const PlacedExperts& experts) {
  const std::size_t n_blocks = experts.maps().size();
  const auto n_physical = static_cast<std::size_t>(experts.map(0).counts().n_physical);
  // -1 where another stage knows better.
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
    // A model without its MTP block has never moved its experts.
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

}  // namespace fathom
