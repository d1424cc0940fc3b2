#include "runtime/loaded_model.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/pages.h"
#include "base/processors.h"
#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "planning/host_report.h"
#include "planning/run_plan.h"
#include "runtime/backend_choice.h"
#include "runtime/host_memory.h"

namespace fathom::runtime {
namespace {

double Megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

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

  if (*partition) loaded.rank_ = fmt::format("rank {}: ", ranks.all().rank());
  const RuntimeEvents rank_events = events.WithPrefix(loaded.rank_);

  const auto start = std::chrono::steady_clock::now();
  Result<std::vector<int>> processors = ChooseProcessors(run);
  if (!processors) return Unexpected(processors.error());
  loaded.processors_ = *std::move(processors);
  Result<std::unique_ptr<Backend>> backend = ChooseBackend(run, loaded.processors_, events);
  if (!backend) return Unexpected(backend.error());
  loaded.backend_ = *std::move(backend);
  const Result<std::optional<HostPlan>> host =
      PlanRun(config, checkpoint, run, *partition, loaded.balance_->placement(), *loaded.backend_,
              plan, rank_events);
  if (!host) return Unexpected(host.error());
  sizes.host_experts = run.host_experts;
  sizes.weights = run.weights;
  sizes.n_load_threads = run.n_threads;
  const bool streams = *host && !(*host)->fits;
  const double memory_speed = streams ? MeasureMemorySpeed(*loaded.backend_, (*host)->budget) : 0;
  if (streams) {
    StreamExperts(**host, config, checkpoint, run, *partition, loaded.balance_->placement(),
                  rank_events, sizes);
  } else if (!run.mirror.empty()) {
    events.Warn("--mirror: not read, since no experts are read from disk while the model runs");
  }
  Result<std::unique_ptr<Model>> model = Model::Load(std::move(config), std::move(checkpoint),
                                                     *loaded.backend_, sizes, events.progress);
  if (!model) return Unexpected(model.error());
  if (events.progress) events.progress(1);
  loaded.model_ = *std::move(model);
  loaded.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  for (const std::string& warning : loaded.model_->warnings()) events.Warn("{}", warning);
  loaded.events_ = events;
  events.Info(
      "{}{}: {:.1f} MB of weights, {:.1f} MB of caches for {} tokens, {:.1f} MB of workspace, "
      "loaded in {:.1f} s",
      loaded.rank_, directory.string(), Megabytes(loaded.model_->weight_bytes()),
      Megabytes(loaded.model_->cache_bytes()), sizes.max_context,
      Megabytes(loaded.model_->workspace_bytes()), loaded.load_seconds_);
  if (*host) {
    const HostSpeeds speeds = SpeedsOfRun(memory_speed, *loaded.model_);
    const Status reported = ReportHostPlan(**host, speeds, loaded.ranks_, events);
    if (!reported) return Unexpected(reported.error());
    loaded.model_->SetExpertTime((*host)->ExpertTime(speeds));
  }
  if (streams) loaded.pool_watch_ = WatchPool(**host, *loaded.model_, rank_events);
  if (const MemoryPlan* const memory = loaded.model_->memory_plan()) {
    events.Info("{}{}", loaded.rank_, Describe(*memory));
  }
  loaded.balance_->Begin(*loaded.model_, events);
  return loaded;
}

LoadedModel::~LoadedModel() {
  if (model_ != nullptr && ranks_ != nullptr) {
    const StreamedExperts* const streamed = StreamedExperts::FindIn(*model_);
    if (streamed != nullptr) events_.Info("{}{}", rank_, Describe(streamed->counts()));
  }
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

}  // namespace fathom::runtime
