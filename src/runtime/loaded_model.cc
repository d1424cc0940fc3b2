#include "runtime/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/pages.h"
#include "base/processors.h"
#include "checkpoint/head_kind.h"
#include "experts/sharded_parts.h"
#include "kv_cache/sequence_cache.h"
#include "model/cache_shape.h"
#include "model/draft/drafters.h"
#include "runtime/backend_choice.h"

namespace fathom {
namespace {

double Megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// nullptr also if the checkpoint lacks a head: Model::Load returns that error.
const DrafterKind* DrafterToLoad(const Checkpoint& checkpoint, const ModelOptions& sizes) {
  const Result<DraftHead> head = FindDraftHead(checkpoint);
  return sizes.with_draft && head ? FindDrafter(head->kind) : nullptr;
}

}  // namespace

Result<LoadedModel> LoadedModel::Load(ModelConfig config, Checkpoint checkpoint,
                                      const RunOptions& run, LoadPlan plan, RankProcess& ranks,
                                      const RuntimeEvents& events) {
  const std::filesystem::path directory = checkpoint.path();
  ModelOptions& sizes = plan.sizes;
  LoadedModel loaded;
  const Result<const ModelRanks*> partition = ranks.Partition(config, checkpoint);
  if (!partition) return Unexpected(partition.error());
  loaded.ranks_ = *partition;
  Result<ExpertBalance> balance = ExpertBalance::Create(run.ranks, *partition, config, checkpoint);
  if (!balance) return Unexpected(balance.error());
  loaded.balance_ = std::make_unique<ExpertBalance>(*std::move(balance));
  sizes.parts = ShardedParts(*partition, {.placement = loaded.balance_->placement()});
  if (sizes.kv_memory_bytes == kDefaultKvMemory) {
    sizes.kv_memory_bytes = 0;
    const CacheShape whole = CacheShapeOf(config, sizes, DrafterToLoad(checkpoint, sizes));
    const std::int64_t full_bytes = SequenceCache::FullBytes(
        ShardCache(whole, *partition ? (*partition)->shard : WholeModel(config)));
    // Assumes that all ranks are on this machine.
    const std::int64_t available =
        AvailableMemory().value_or(std::numeric_limits<std::int64_t>::max()) / ranks.all().size();
    sizes.kv_memory_bytes = DefaultKvMemory(full_bytes, available, plan.prefix_cache);
  }

  const auto start = std::chrono::steady_clock::now();
  Result<std::vector<int>> processors = ChooseProcessors(run);
  if (!processors) return Unexpected(processors.error());
  loaded.processors_ = *std::move(processors);
  Result<std::unique_ptr<Backend>> backend = ChooseBackend(run, loaded.processors_, events);
  if (!backend) return Unexpected(backend.error());
  loaded.backend_ = *std::move(backend);
  sizes.weights = run.weights;
  sizes.n_load_threads = run.n_threads;
  Result<std::unique_ptr<Model>> model = Model::Load(std::move(config), std::move(checkpoint),
                                                     *loaded.backend_, sizes, events.progress);
  if (!model) return Unexpected(model.error());
  if (events.progress) events.progress(1);
  loaded.model_ = *std::move(model);
  loaded.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  for (const std::string& warning : loaded.model_->warnings()) events.Warn("{}", warning);
  loaded.events_ = events;
  if (*partition) loaded.rank_ = fmt::format("rank {}: ", ranks.all().rank());
  events.Info(
      "{}{}: {:.1f} MB of weights, {:.1f} MB of caches for {} tokens, {:.1f} MB of workspace, "
      "loaded in {:.1f} s",
      loaded.rank_, directory.string(), Megabytes(loaded.model_->weight_bytes()),
      Megabytes(loaded.model_->cache_bytes()), sizes.max_context,
      Megabytes(loaded.model_->workspace_bytes()), loaded.load_seconds_);
  loaded.balance_->Begin(*loaded.model_, events);
  return loaded;
}

LoadedModel::~LoadedModel() {
  if (model_ != nullptr && events_.info) {
    events_.Info("{}in the end {:.1f} MB of weights were in memory", rank_,
                 Megabytes(model_->resident_weight_bytes()));
  }
}

// Called after loading: threads that load weights inherit the processors of the thread that starts
// them.
void LoadedModel::BindThread() const {
  if (!processors_.empty() && !BindThisThread(processors_.front())) {
    events_.Warn("cannot bind the first thread to processor {}", processors_.front());
  }
}

Result<std::int64_t> ContextLength(const RunOptions& run, std::int64_t fallback,
                                   const ModelConfig& config) {
  if (run.n_context && *run.n_context > config.max_position_embeddings) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context: expected at most {}, the positions of this model, found {}",
                     config.max_position_embeddings, *run.n_context);
  }
  return run.n_context.value_or(std::min(fallback, config.max_position_embeddings));
}

std::int64_t DefaultKvMemory(std::int64_t full_bytes, std::int64_t available_bytes,
                             bool prefix_cache) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  const std::int64_t more = prefix_cache ? std::min(4 * full_bytes, kGibibyte) : 0;
  return std::min(full_bytes + more, available_bytes / 2);
}

}  // namespace fathom
