#include "model/load_weights.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/lost_pages.h"
#include "base/thread_team.h"
#include "model/memory_plan.h"
#include "model/weight_pieces.h"
#include "model/weight_values.h"

namespace fathom::model {
namespace {

Status HoldInMemory(ModelState& model, const LoadProgress& progress) {
  const WeightMemory& memory = model.options.weights;
  ThreadTeam team(model.options.n_load_threads);
  const WalkedWeights held_weights =
      model.parts.store->ReadsExperts() ? WalkedWeights::kResident : WalkedWeights::kAll;
  MemoryPieces pieces = WeightPieces(model.weights, held_weights);
  if (Status room = CheckRoom(model.checkpoint, pieces, memory); !room) return room;
  UnmapUnusedPages(model.checkpoint, pieces);
  if (Status valid =
          CheckWeightValues(model.checkpoint, model.config, WeightValues::kOutsideExperts, team,
                            model.parts.tensor->is_whole() ? nullptr : &pieces);
      !valid) {
    return valid;
  }
  Result<PageMemory> held = HoldWeights(pieces, memory, team, progress, model.warnings);
  if (!held) return Unexpected(held.error());
  if (memory.huge_pages) {
    MoveWeights(model.weights, held_weights, pieces, *std::move(held));
    if (held_weights == WalkedWeights::kAll) model.checkpoint = Checkpoint();
  }
  return {};
}

// Decides on the memory of the routed experts, if the backend has a memory of its own.
Status PlanExperts(ModelState& model) {
  Backend& backend = model.parts.tensor->backend();
  const std::optional<std::int64_t> free = backend.DeviceMemory();
  if (!free) return {};
  const Result<CacheShape> caches = model.ShapeOfCaches();
  if (!caches) return Unexpected(caches.error());
  Result<MemoryNeeds> needs = ComputeMemoryNeeds(
      model.weights, model.config, model.options, model.drafter_kind, *caches,
      model.parts.tensor->bytes() + model.parts.experts->bytes(), backend.ReadsWeightsInPlace());
  if (!needs) return Unexpected(needs.error());
  Result<MemoryPlan> plan = PlanMemory(*std::move(needs), *free, model.options.host_experts);
  if (!plan) return Unexpected(plan.error());
  model.memory_plan = *std::move(plan);
  return backend.PlaceExperts(model.memory_plan->places);
}

}  // namespace

Status LoadWeights(ModelState& model, const LoadProgress& progress) {
  Result<ModelWeights> bound = BindWeights(model.checkpoint, model.config, model.drafter_kind);
  if (!bound) return Unexpected(bound.error());
  model.weights = *std::move(bound);
  const ModelParts& parts = model.parts;
  parts.store->ShardWeights(model.weights);
  parts.tensor->ShardWeights(model.weights);
  if (Status planned = PlanExperts(model); !planned) return planned;
  if (Status held = HoldInMemory(model, progress); !held) return held;
  if (Status imported = ImportDenseWeights(model.weights, parts.tensor->backend()); !imported) {
    return imported;
  }
  if (Status intact = CheckLostPages(); !intact) return intact;
  const WeightMemory& memory = model.options.weights;
  return parts.store->Bind(
      model.weights,
      {.checkpoint = model.checkpoint, .is_mapped = !memory.Any(), .lock = memory.lock});
}

}  // namespace fathom::model
