#include "model/load_weights.h"

#include <utility>

#include "base/thread_team.h"
#include "checkpoint/weight_binder.h"
#include "model/weight_pieces.h"
#include "model/weight_values.h"

namespace fathom {
namespace {

Status HoldInMemory(Checkpoint& checkpoint, const ModelConfig& config, const ModelOptions& options,
                    bool is_whole, const LoadProgress& progress, ModelWeights& weights,
                    std::vector<std::string>& warnings) {
  ThreadTeam team(options.n_load_threads);
  MemoryPieces pieces = WeightPieces(weights);
  if (Status room = CheckRoom(checkpoint, pieces, options.weights); !room) {
    return room;
  }
  UnmapUnusedPages(checkpoint, pieces);
  if (Status valid = CheckWeightValues(checkpoint, config, WeightValues::kOutsideExperts, team,
                                       is_whole ? nullptr : &pieces);
      !valid) {
    return valid;
  }
  Result<PageMemory> memory = HoldWeights(pieces, options.weights, team, progress, warnings);
  if (!memory) {
    return Unexpected(memory.error());
  }
  if (options.weights.huge_pages) {
    MoveWeights(weights, pieces, *std::move(memory));
    checkpoint = Checkpoint();
  }
  return {};
}

}  // namespace

Status LoadWeights(Checkpoint& checkpoint, const ModelConfig& config, const ModelOptions& options,
                   const ModelParts& parts, const LoadProgress& progress, ModelWeights& weights,
                   std::vector<std::string>& warnings) {
  WeightBinder binder(checkpoint);
  weights = BindWeights(checkpoint, config, options.with_draft, binder);
  if (Status bound = binder.Finish(); !bound) {
    return bound;
  }
  parts.store->ShardWeights(weights);
  parts.tensor->ShardWeights(weights);
  if (Status held = HoldInMemory(checkpoint, config, options, parts.tensor->is_whole(), progress,
                                 weights, warnings);
      !held) {
    return held;
  }
  if (Status imported = ImportDenseWeights(weights, parts.tensor->backend()); !imported) {
    return imported;
  }
  return parts.store->Bind(weights, options.weights.Any() ? nullptr : &checkpoint,
                           options.weights.lock);
}

}  // namespace fathom
