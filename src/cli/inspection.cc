#include "cli/inspection.h"

#include <fmt/format.h>

#include <utility>

#include "base/processors.h"
#include "base/thread_team.h"
#include "checkpoint/weight_binder.h"
#include "kv_cache/layout.h"
#include "model/cache_shape.h"
#include "model/weight_values.h"
#include "model/weights.h"
#include "planning/host_shares.h"
#include "planning/load_plan.h"
#include "runtime/generation_config.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {
namespace {

void AddProblems(Inspection& inspection, std::string subject, std::vector<Error> problems) {
  if (!problems.empty()) {
    inspection.problems.push_back({std::move(subject), std::move(problems)});
  }
}

template <class T>
void AddProblem(Inspection& inspection, std::string subject, const Result<T>& checked) {
  if (!checked) AddProblems(inspection, std::move(subject), {checked.error()});
}

void CountTensors(const Checkpoint& checkpoint, Inspection& inspection) {
  inspection.n_files = checkpoint.shards().size();
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const auto bytes = static_cast<std::int64_t>(tensor.view.bytes.size());
    for (DTypeUse* use : {&inspection.dtypes[tensor.view.dtype], &inspection.all}) {
      ++use->n_tensors;
      use->bytes += bytes;
    }
    if (IsDraftTensor(tensor.name)) {
      inspection.draft_bytes += bytes;
    }
  }
}

// A checkpoint that also reads images runs as a text model.
void WarnOfVision(const Checkpoint& checkpoint, Inspection& inspection) {
  DTypeUse vision;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    if (!tensor.name.starts_with("vision.") && !tensor.name.starts_with("aligner.")) continue;
    ++vision.n_tensors;
    vision.bytes += static_cast<std::int64_t>(tensor.view.bytes.size());
  }
  if (vision.n_tensors == 0) return;
  inspection.warnings.push_back(
      fmt::format("the {} tensors of its vision part ({} bytes) are not used: Fathom runs it as a "
                  "text model, without images",
                  vision.n_tensors, vision.bytes));
}

LayerCounts CountLayers(const ModelConfig& config) {
  LayerCounts counts;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const int ratio = config.compress_ratios[static_cast<std::size_t>(i)];
    ++(ratio == 0 ? counts.window : ratio == 4 ? counts.ratio_4 : counts.ratio_128);
    ++(i < config.num_hash_layers ? counts.hash_routed : counts.learned);
  }
  return counts;
}

// Returns the memory of one sequence in the main layers, as this program stores it.
CacheMemory MeasureCache(const ModelConfig& config) {
  const CacheShape shape = MakeCacheShape(config, {.max_context = config.max_position_embeddings});
  const LayerBytes bytes = BytesPerSequence(shape);
  return {.constant = bytes.constant,
          .per_1000_tokens = static_cast<std::int64_t>(1000 * BytesPerToken(shape)),
          .at_full_context = bytes.constant + bytes.growing};
}

void InspectDraftHead(const Checkpoint& checkpoint, Inspection& inspection) {
  const Result<DraftHead> head = FindDraftHead(checkpoint);
  AddProblem(inspection, "draft head", head);
  if (!head) return;
  inspection.head = *head;
}

void InspectWeights(const Checkpoint& checkpoint, bool deep, Inspection& inspection) {
  ModelConfig& config = *inspection.config;
  const Result<DraftHead> adopted =
      inspection.head ? AdoptDraftHead(checkpoint, config) : DraftHead{};
  AddProblem(inspection, "draft head", adopted);
  WeightBinder binder(checkpoint);
  static_cast<void>(BindWeights(checkpoint, config, adopted ? adopted->kind : nullptr, binder));
  AddProblems(inspection, "tensors", binder.Problems());
  if (auto warning = ExpertFormatWarning(config, inspection.experts)) {
    inspection.warnings.push_back(*std::move(warning));
  }
  ThreadTeam team(AvailableCores());
  AddProblem(inspection, "values",
             CheckWeightValues(checkpoint, config,
                               deep ? WeightValues::kAll : WeightValues::kOutsideExperts, team));
}

// Reads the files other than weights that every answering command reads.
void InspectTexts(const std::filesystem::path& directory, Inspection& inspection) {
  AddProblem(inspection, "generation_config.json",
             ReadGenerationConfig(directory, inspection.config->vocab_size));
  AddProblem(inspection, "tokenizer.json", Tokenizer::Load(directory));
}

// Plans the memory of a host as loading with the default options would.
void PlanForHost(const Checkpoint& checkpoint, const InspectionOptions& options,
                 Inspection& inspection) {
  const std::int64_t memory = *options.memory;
  const ModelConfig& config = *inspection.config;
  const Result<std::int64_t> n_context = ContextLength({}, kDefaultContext, config);
  AddProblem(inspection, "host", n_context);
  if (!n_context) return;
  const LoadPlan load = MakeLoadPlan({}, *n_context, MostDrafts({}, checkpoint, config));
  Result<HostPlans> plans = options.n_ranks
                                ? PlanAllRanks(config, checkpoint, options.ranks, *options.n_ranks,
                                               load, AvailableCores(), memory)
                                : PlanHost(config, checkpoint, load, AvailableCores(), memory);
  AddProblem(inspection, "host", plans);
  if (!plans) return;
  inspection.host = {.plans = *std::move(plans),
                     .has_ranks = options.n_ranks.has_value(),
                     .speeds = options.speeds};
}

}  // namespace

Inspection InspectModel(const std::filesystem::path& directory, const InspectionOptions& options) {
  Inspection inspection = {.directory = directory, .profile = DetectProfile(directory)};
  Checkpoint::Inspection files = Checkpoint::Inspect(directory);
  AddProblems(inspection, "files", std::move(files.problems));
  CountTensors(files.checkpoint, inspection);
  WarnOfVision(files.checkpoint, inspection);
  inspection.experts = FindExpertFormats(files.checkpoint);
  InspectDraftHead(files.checkpoint, inspection);

  Result<ModelConfig> config = ReadModelConfig(directory / "config.json");
  AddProblem(inspection, "config.json", config);
  if (!config) return inspection;  // the expected tensors and tokens are unknown
  inspection.config = *std::move(config);
  inspection.layers = CountLayers(*inspection.config);
  inspection.cache = MeasureCache(*inspection.config);
  InspectWeights(files.checkpoint, options.deep, inspection);
  InspectTexts(directory, inspection);
  if (options.device_memory && inspection.problems.empty()) {
    const Result<MemoryPlan> plan = PlanDeviceMemory(*inspection.config, files.checkpoint,
                                                     *options.device_memory, options.experts);
    AddProblem(inspection, "device", plan);
    if (plan) inspection.device = *plan;
  }
  if (options.memory && inspection.problems.empty()) {
    PlanForHost(files.checkpoint, options, inspection);
  }
  return inspection;
}

}  // namespace fathom::cli
