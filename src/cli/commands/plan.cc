#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/processors.h"
#include "checkpoint/safetensors.h"
#include "cli/commands/commands.h"
#include "cli/terminal/output.h"
#include "measure/plan/expert_load.h"
#include "measure/plan/hardware.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/plan_report.h"
#include "measure/plan/planner.h"
#include "measure/slice/shapes.h"
#include "planning/host_shares.h"
#include "planning/load_plan.h"
#include "runtime/model_files.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kContext = 8192;
constexpr std::int64_t kPrompt = 2048;

Result<plan::ModelSizes> ReadModel(const PlanCommand& command) {
  if (!command.shape.empty()) {
    return plan::ModelSizes(command.shape, command.shape == "pro" ? ProConfig() : FlashConfig());
  }
  const Result<std::filesystem::path> directory = FindModel(command.model);
  if (!directory) return Unexpected(directory.error());
  return plan::ModelSizes::Read(*directory);
}

Result<plan::Hardware> ReadHardware(const std::filesystem::path& file) {
  const Result<std::string> text = ReadInput(file.string());
  if (!text) return Unexpected(text.error());
  return plan::ParseHardware(*text, file.string());
}

Result<plan::ExpertLoad> ReadLoad(const PlanCommand& command, const ModelConfig& config) {
  if (command.expert_trace.empty()) return plan::ZipfLoad(config, command.zipf);
  const Result<std::string> text = ReadInput(command.expert_trace.string());
  if (!text) return Unexpected(text.error());
  return plan::ParseExpertTrace(*text, command.expert_trace.string(), config);
}

plan::Workload MakePlanWorkload(const PlanCommand& command, const ModelConfig& config) {
  plan::Workload work = command.workload;
  work.context = command.n_context.value_or(std::min(kContext, config.max_position_embeddings));
  work.prompt = command.n_prompt.value_or(std::min(kPrompt, work.context));
  work.chunk = command.chunk.value_or(kDefaultBatchTokens);
  return work;
}

// Returns the division that the options describe; plan has its own names for some of them.
RankOptions MakeRankOptions(const PlanCommand& command) {
  RankOptions ranks = command.ranks;
  ranks.decode_context_parallel = command.workload.decode_context_parallel;
  if (command.workload.experts.exchange == ExpertPath::kGather) ranks.expert_exchange = "gather";
  ranks.n_redundant_experts = command.workload.experts.n_redundant.value_or(0);
  return ranks;
}

// Plans ranks on this machine with the given memory for each, as their start does.
Result<HostPlans> PlanRanks(const PlanCommand& command, const plan::ModelSizes& model,
                            const Checkpoint& checkpoint, std::int64_t n_context) {
  const LoadPlan load = MakeLoadPlan(
      {.max_batch_tokens = command.chunk, .max_sequences = command.workload.concurrency}, n_context,
      MostDrafts({}, checkpoint, model.config()));
  return PlanAllRanks(model.config(), checkpoint, MakeRankOptions(command), *command.n_ranks, load,
                      AvailableCores(), *command.memory);
}

Result<HostPlans> PlanOneHost(const PlanCommand& command, const plan::ModelSizes& model,
                              std::int64_t n_context) {
  const DrafterKind* const drafter = model.drafter();
  LoadPlan load =
      MakeLoadPlan({.max_batch_tokens = std::max(command.chunk.value_or(kDefaultBatchTokens),
                                                 command.workload.concurrency),
                    .max_sequences = command.workload.concurrency},
                   n_context, drafter == nullptr ? 0 : drafter->depth(model.config()));
  load.steps_may_grow = !command.chunk;
  NeedsFinder finder(model.config(), drafter, model.HostWeights(), AvailableCores(),
                     *command.memory);
  return PlanStepsOfShares(finder, load);
}

// Plans hosts that stream from disk the part of the weights that does not fit.
Status PlanHosts(const PlanCommand& command) {
  Result<Checkpoint> checkpoint = Checkpoint();
  if (command.n_ranks) {
    const Result<std::filesystem::path> directory = FindModel(command.model);
    if (!directory) return Unexpected(directory.error());
    checkpoint = Checkpoint::Open(*directory);
    if (!checkpoint) return Unexpected(checkpoint.error());
  }
  const Result<plan::ModelSizes> model = ReadModel(command);
  if (!model) return Unexpected(model.error());
  const Result<std::int64_t> n_context =
      ContextLength({.n_context = command.n_context}, kContext, model->config());
  if (!n_context) return Unexpected(n_context.error());
  Result<HostPlans> plans = command.n_ranks ? PlanRanks(command, *model, *checkpoint, *n_context)
                                            : PlanOneHost(command, *model, *n_context);
  if (!plans) return Unexpected(plans.error());
  const HostPrediction hosts = {.plans = *std::move(plans),
                                .has_ranks = command.n_ranks.has_value(),
                                .speeds = command.speeds};
  return Print(command.json ? plan::ToJson(*model, hosts) : plan::ToTable(*model, hosts));
}

}  // namespace

Status RunCommand(const PlanCommand& command, Log&) {
  if (command.memory) return PlanHosts(command);
  const Result<plan::Hardware> hardware = ReadHardware(command.hardware);
  if (!hardware) return Unexpected(hardware.error());
  const Result<plan::ModelSizes> model = ReadModel(command);
  if (!model) return Unexpected(model.error());
  const Result<plan::ExpertLoad> load = ReadLoad(command, model->config());
  if (!load) return Unexpected(load.error());
  const Result<plan::PlannedLayouts> made =
      plan::PlanLayouts(*model, *hardware, *load, MakePlanWorkload(command, model->config()));
  if (!made) return Unexpected(made.error());
  return Print(command.json ? plan::ToJson(*model, *made)
                            : plan::ToTable(*model, *made, command.n_rows));
}

}  // namespace fathom::cli
