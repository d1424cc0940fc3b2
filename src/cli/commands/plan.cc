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
#include "measure/plan/host_needs.h"
#include "measure/plan/model_sizes.h"
#include "measure/plan/plan_report.h"
#include "measure/plan/planner.h"
#include "measure/slice/shapes.h"
#include "planning/host_plan.h"
#include "planning/load_plan.h"
#include "planning/rank_plan.h"
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
  const std::int64_t context =
      command.n_context.value_or(std::min(kContext, config.max_position_embeddings));
  return {.context = context,
          .prompt = command.n_prompt.value_or(std::min(kPrompt, context)),
          .concurrency = command.concurrency,
          .chunk = command.chunk.value_or(kDefaultBatchTokens),
          .micro_batches = command.micro_batches,
          .decode_context_parallel = command.decode_context_parallel,
          .experts = {.exchange = command.fused ? plan::ExpertExchange::kFused
                                                : plan::ExpertExchange::kUnfused,
                      .n_redundant = command.n_redundant}};
}

// Plans a host that streams from disk the part of the weights that does not fit.
Status PlanOneHost(const PlanCommand& command, std::int64_t memory) {
  const Result<plan::ModelSizes> model = ReadModel(command);
  if (!model) return Unexpected(model.error());
  const Result<std::int64_t> n_context =
      ContextLength({.n_context = command.n_context}, kContext, model->config());
  if (!n_context) return Unexpected(n_context.error());
  const auto plan_with = [&](std::int64_t step_tokens) -> Result<HostPlans> {
    const Result<HostNeeds> needs = plan::ComputeHostNeeds(*model,
                                                           {.context = *n_context,
                                                            .n_sequences = command.concurrency,
                                                            .step_tokens = step_tokens,
                                                            .n_threads = AvailableCores()},
                                                           memory);
    if (!needs) return Unexpected(needs.error());
    const Result<HostPlan> plan = PlanHostMemory(*needs, memory);
    if (!plan) return Unexpected(plan.error());
    return HostPlans{*plan};
  };
  const std::int64_t step_tokens =
      std::max(command.chunk.value_or(kDefaultBatchTokens), command.concurrency);
  const Result<HostPlans> plans =
      command.chunk ? plan_with(step_tokens)
                    : PlanLongSteps(step_tokens, command.concurrency * *n_context, plan_with);
  if (!plans) return Unexpected(plans.error());
  const HostPlan& plan = plans->front();
  return Print(command.json ? plan::ToJson(*model, plan, command.speeds)
                            : plan::ToTable(*model, plan, command.speeds));
}

// Returns the division that the options describe; plan has its own names for some of them.
RankOptions MakeRankOptions(const PlanCommand& command) {
  RankOptions ranks = command.ranks;
  ranks.decode_context_parallel = command.decode_context_parallel;
  if (!command.fused) ranks.expert_exchange = "gather";
  ranks.n_redundant_experts = command.n_redundant.value_or(0);
  return ranks;
}

// Plans ranks on this machine with the given memory for each, as their start does.
Status PlanRanks(const PlanCommand& command, std::int64_t memory, int n_ranks) {
  const Result<std::filesystem::path> directory = FindModel(command.model);
  if (!directory) return Unexpected(directory.error());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint) return Unexpected(checkpoint.error());
  const Result<plan::ModelSizes> model = plan::ModelSizes::Read(*directory);
  if (!model) return Unexpected(model.error());
  const ModelConfig& config = model->config();
  const Result<std::int64_t> n_context =
      ContextLength({.n_context = command.n_context}, kContext, config);
  if (!n_context) return Unexpected(n_context.error());
  const LoadPlan load =
      MakeLoadPlan({.max_batch_tokens = command.chunk, .max_sequences = command.concurrency},
                   *n_context, MostDrafts({}, *checkpoint, config));
  const Result<std::vector<RankPlan>> ranks = PlanAllRanks(
      config, *checkpoint, MakeRankOptions(command), n_ranks, load, AvailableCores(), memory);
  if (!ranks) return Unexpected(ranks.error());
  return Print(command.json ? plan::ToJson(*model, *ranks, command.speeds)
                            : plan::ToTable(*model, *ranks, command.speeds));
}

}  // namespace

Status RunCommand(const PlanCommand& command, Log&) {
  if (command.n_ranks) return PlanRanks(command, *command.memory, *command.n_ranks);
  if (command.memory) return PlanOneHost(command, *command.memory);
  const Result<plan::Hardware> hardware = ReadHardware(command.hardware);
  if (!hardware) return Unexpected(hardware.error());
  const Result<plan::ModelSizes> model = ReadModel(command);
  if (!model) return Unexpected(model.error());
  const Result<plan::ExpertLoad> load = ReadLoad(command, model->config());
  if (!load) return Unexpected(load.error());
  const Result<plan::Plan> made =
      plan::MakePlan(*model, *hardware, *load, MakePlanWorkload(command, model->config()));
  if (!made) return Unexpected(made.error());
  return Print(command.json ? plan::ToJson(*made) : plan::ToTable(*made, command.n_rows));
}

}  // namespace fathom::cli
