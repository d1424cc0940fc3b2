#include "cli/inspection.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/processors.h"
#include "base/thread_team.h"
#include "checkpoint/problems.h"
#include "checkpoint/weight_binder.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "kv_cache/layout.h"
#include "model/cache_shape.h"
#include "model/weight_values.h"
#include "model/weights.h"
#include "planning/host_report.h"
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
void PlanForHost(const Checkpoint& checkpoint, const InspectCommand& options,
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

Inspection InspectModel(const std::filesystem::path& directory, const InspectCommand& options) {
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

namespace {

// Returns "1.57 GB": decimal units, three digits.
std::string Bytes(std::int64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

// Returns 145,116.
std::string Grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string_view ExpertFormat(const ExpertFormats& experts) {
  const int n_kinds = (experts.n_fp4 > 0) + (experts.n_fp8 > 0) + (experts.n_other > 0);
  if (n_kinds == 0) return "none found";
  if (n_kinds > 1) return "of several formats";
  return experts.n_fp4 > 0 ? "FP4" : experts.n_fp8 > 0 ? "FP8" : "of an unknown format";
}

std::string DescribeHead(const Inspection& inspection) {
  if (!inspection.head) return "contradictory, see below";
  std::string text(inspection.head->name());
  if (inspection.head->kind != nullptr) {
    text += fmt::format(", {} stage{}, {}", inspection.head->n_stages,
                        inspection.head->n_stages == 1 ? "" : "s", Bytes(inspection.draft_bytes));
  }
  return text;
}

std::string DescribeProfile(const ProfileDetection& detection) {
  if (detection.is_certain) {
    return fmt::format("{} ({})", detection.profile.name, detection.evidence);
  }
  return fmt::format("{}, a guess ({}); choose with --prompt-profile", detection.profile.name,
                     detection.evidence.empty() ? "nothing says it" : detection.evidence);
}

std::string DescribeConfig(const Inspection& inspection) {
  const ModelConfig& config = *inspection.config;
  const LayerCounts& layers = inspection.layers;
  std::string text = fmt::format(
      "model         deepseek_v4: hidden {}, {} heads of {}, vocabulary {}, context {}\n",
      config.hidden_size, config.num_attention_heads, config.head_dim, Grouped(config.vocab_size),
      Grouped(config.max_position_embeddings));
  text += fmt::format(
      "layers        {}: {} sliding window, {} ratio 4 with indexer, {} ratio 128; {} hash-routed, "
      "{} learned routing\n",
      config.num_hidden_layers, layers.window, layers.ratio_4, layers.ratio_128, layers.hash_routed,
      layers.learned);
  text += fmt::format("experts       {} per layer ({}), {} per token, {} shared\n",
                      config.n_routed_experts, ExpertFormat(inspection.experts),
                      config.num_experts_per_tok, config.n_shared_experts);
  return text;
}

std::string DescribeMemory(const Inspection& inspection) {
  const std::int64_t weights = inspection.all.bytes - inspection.draft_bytes;
  std::string text = fmt::format("memory        weights {}", Bytes(weights));
  if (inspection.draft_bytes > 0) {
    text += fmt::format(" + draft head {}", Bytes(inspection.draft_bytes));
  }
  text += "\n";
  if (inspection.config) {
    const CacheMemory& cache = inspection.cache;
    text += fmt::format(
        "              KV cache of a sequence: {} + {} per 1,000 tokens; {} at {} tokens\n",
        Bytes(cache.constant), Bytes(cache.per_1000_tokens), Bytes(cache.at_full_context),
        Grouped(inspection.config->max_position_embeddings));
  }
  if (inspection.device) {
    text += fmt::format("              {}\n", Describe(*inspection.device));
  }
  if (inspection.host) {
    for (const std::string& line : Describe(*inspection.host)) {
      text += fmt::format("              {}\n", line);
    }
  }
  return text;
}

JsonValue ConfigToJson(const ModelConfig& config) {
  return {{"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"head_dim", config.head_dim},
          {"qk_rope_head_dim", config.qk_rope_head_dim},
          {"q_lora_rank", config.q_lora_rank},
          {"o_groups", config.o_groups},
          {"o_lora_rank", config.o_lora_rank},
          {"sliding_window", config.sliding_window},
          {"index_n_heads", config.index_n_heads},
          {"index_head_dim", config.index_head_dim},
          {"index_topk", config.index_topk},
          {"moe_intermediate_size", config.moe_intermediate_size},
          {"n_routed_experts", config.n_routed_experts},
          {"n_shared_experts", config.n_shared_experts},
          {"num_experts_per_tok", config.num_experts_per_tok},
          {"num_hash_layers", config.num_hash_layers},
          {"max_position_embeddings", config.max_position_embeddings},
          {"compress_ratios", config.compress_ratios}};
}

JsonValue ProblemsToJson(const Inspection& inspection) {
  JsonValue problems = JsonValue::Array();
  for (const ProblemGroup& group : inspection.problems) {
    for (const Error& problem : group.problems) {
      problems.push_back({{"kind", group.subject}, {"message", problem.message}});
    }
  }
  return problems;
}

JsonValue DeviceToJson(const MemoryPlan& plan) {
  const MemoryNeeds& needs = plan.needs;
  return {{"free_bytes", plan.free},
          {"driver_bytes", plan.kept},
          {"dense_bytes", needs.dense},
          {"draft_head_bytes", needs.draft},
          {"activation_bytes", needs.activations},
          {"cache_bytes", needs.caches},
          {"staging_bytes", needs.staging},
          {"expert_bytes", needs.expert},
          {"experts", plan.n_experts()},
          {"experts_on_device", plan.n_on_device()},
          {"experts_of_layers", plan.places.on_device},
          {"host_experts", plan.places.host_computes ? "cpu" : "gpu"}};
}

JsonValue MemoryToJson(const Inspection& inspection) {
  JsonValue memory = {{"weights_bytes", inspection.all.bytes - inspection.draft_bytes},
                      {"draft_head_bytes", inspection.draft_bytes}};
  if (inspection.config) {
    memory["kv_constant_bytes"] = inspection.cache.constant;
    memory["kv_bytes_per_1000_tokens"] = inspection.cache.per_1000_tokens;
    memory["kv_bytes_at_full_context"] = inspection.cache.at_full_context;
  }
  if (inspection.device) {
    memory["device"] = DeviceToJson(*inspection.device);
  }
  if (inspection.host) {
    memory.Update(ToJson(*inspection.host));
  }
  return memory;
}

}  // namespace

std::string DescribeInspection(const Inspection& inspection) {
  std::string text = fmt::format("checkpoint    {}\n", inspection.directory.string());
  if (inspection.config) {
    text += DescribeConfig(inspection);
  }
  text += fmt::format("draft head    {}\n", DescribeHead(inspection));
  text += fmt::format("chat format   {}\n", DescribeProfile(inspection.profile));
  text += fmt::format("tensors       {} in {} files, {} bytes ({})\n",
                      Grouped(inspection.all.n_tensors), inspection.n_files,
                      Grouped(inspection.all.bytes), Bytes(inspection.all.bytes));
  for (const auto& [dtype, use] : inspection.dtypes) {
    text += fmt::format("  {:<10}  {:>9} tensors {:>19} bytes\n", Name(dtype),
                        Grouped(use.n_tensors), Grouped(use.bytes));
  }
  text += DescribeMemory(inspection);
  for (const std::string& warning : inspection.warnings) {
    text += fmt::format("warning       {}\n", warning);
  }
  for (const ProblemGroup& group : inspection.problems) {
    text += SummarizeProblems(fmt::format("the {}", group.subject), group.problems).message + "\n";
  }
  if (inspection.problems.empty()) {
    text += "problems      none\n";
  }
  return text;
}

std::string InspectionToJson(const Inspection& inspection) {
  JsonValue dtypes = JsonValue::Object();
  for (const auto& [dtype, use] : inspection.dtypes) {
    dtypes[std::string(Name(dtype))] = {{"tensors", use.n_tensors}, {"bytes", use.bytes}};
  }
  JsonValue object = {{"model", inspection.directory.string()},
                      {"ok", inspection.problems.empty()},
                      {"prompt_profile", inspection.profile.profile.name},
                      {"prompt_profile_is_certain", inspection.profile.is_certain},
                      {"prompt_profile_evidence", inspection.profile.evidence},
                      {"files", inspection.n_files},
                      {"tensors", inspection.all.n_tensors},
                      {"bytes", inspection.all.bytes},
                      {"dtypes", std::move(dtypes)}};
  if (inspection.config) {
    const LayerCounts& layers = inspection.layers;
    object["config"] = ConfigToJson(*inspection.config);
    object["layers"] = {{"sliding_window", layers.window},
                        {"ratio_4", layers.ratio_4},
                        {"ratio_128", layers.ratio_128},
                        {"hash_routed", layers.hash_routed},
                        {"learned", layers.learned}};
  }
  object["experts"] = {{"fp4", inspection.experts.n_fp4},
                       {"fp8", inspection.experts.n_fp8},
                       {"other", inspection.experts.n_other}};
  if (inspection.head) {
    object["draft_head"] = {{"kind", inspection.head->name()},
                            {"stages", inspection.head->n_stages}};
  }
  object["memory"] = MemoryToJson(inspection);
  object["warnings"] = inspection.warnings;
  object["problems"] = ProblemsToJson(inspection);
  return WriteJson(object, 2) + "\n";
}

}  // namespace fathom::cli
