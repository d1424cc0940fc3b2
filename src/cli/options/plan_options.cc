#include "cli/options/command_options.h"
#include "cli/options/option_values.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr std::string_view kExchangeNames[] = {"unfused", "fused"};  // in the order of ExpertPath

void AddWork(Command& command, PlanCommand& options) {
  command.Group("Work");
  command.Add({"--context", "N",
               "Tokens before the decoded one, and of a sequence's caches (default: 8192, or "
               "the model's limit)",
               Integer(1, kMostTokens, options.n_context)});
  command.Add({"--prompt", "N",
               "Tokens of the prompt whose TTFT is reported (default: 2048, or the context)",
               Integer(1, kMostTokens, options.n_prompt)});
  command.Add({"--concurrency", "N",
               "Sequences decoded at once, on all devices together (default: 1)",
               Integer(1, 1'000'000, options.workload.concurrency)});
  command.Add({"--chunk", "C",
               "Prompt tokens of a step (default: 512, and up to 8192 where experts are read from "
               "disk)",
               Integer(1, 65536, options.chunk)});
  command.Add({"--micro-batches", "N",
               "Parts of a batch in flight in a pipeline (default: its stages)",
               Integer(1, 1024, options.workload.micro_batches)});
  command.AddFlag("--decode-context-parallel", options.workload.decode_context_parallel,
                  "Tensor ranks divide the cached rows that queries choose from, not only where "
                  "memory is short");
}

void AddExperts(Command& command, PlanCommand& options) {
  command.Group("Experts");
  command.Add({"--zipf", "S",
               "The i-th most popular expert of a layer is chosen i^-S times as often (default: 0, "
               "all alike)",
               Number(0, 10, options.zipf)});
  command.Add({.names = "--expert-trace",
               .value = "FILE",
               .help = "Trace of the chosen experts (docs/plan.md)",
               .read = Text(options.expert_trace),
               .excludes = {"--zipf"}});
  command.Add({"--redundant-experts", "R",
               "Place experts with the balancer and R more replicas (default: not balanced)",
               Integer(0, 65536, options.workload.experts.n_redundant)});
  command.Add({"--exchange", "NAME",
               "Exchange of expert outputs: unfused, or fused with their computation (default: "
               "fused)",
               OneOf(kExchangeNames, options.workload.experts.exchange)});
}

}  // namespace

void AddCommand(Command& root, PlanCommand& options) {
  Command command = root.AddCommand(
      options.kName,
      "Predict which parallel layouts of a model fit some hardware, and their speed");
  Command machine = command.AddGroup("Machine", 1);
  machine.Add({"--hardware", "FILE", "Description of the devices and links (docs/plan.md)",
               Text(options.hardware)});
  machine.Add({"--memory", "SIZE",
               "Memory of a host that streams from disk what does not fit, like 16G "
               "(docs/memory.md)",
               MemorySize(options.memory)});
  AddModel(command, options.model);
  command.Group("Host");
  AddHostSpeeds(command, options.speeds);
  AddPlannedRanks(command, options.n_ranks, options.ranks);
  command.Group(kOwnGroup);
  command.Add({.names = "--shape",
               .value = "NAME",
               .help = "flash or pro: the published model, in place of --model",
               .read = OneOf({"flash", "pro"}, options.shape),
               .excludes = {"--model", "--ranks"}});
  command.Add({"--format", "NAME", "text or json (default: text)",
               TrueFor("json", {"text", "json"}, options.json)});
  command.Add(
      {"--top", "N", "Rows of the table (default: 16; 0: all)", AtLeast(0, options.n_rows)});
  AddWork(command, options);
  AddExperts(command, options);
  command.Footer(
      "A directory with nothing but config.json is enough. docs/plan.md says what the figures\n"
      "mean and how far they were from measured ones.\n"
      "Examples:\n"
      "  fathom plan --shape flash --hardware docs/hardware/h200x8.json --concurrency 64\n"
      "  fathom plan --shape flash --memory 32G --disk-gb-s 5\n"
      "  fathom plan --model DIR --memory 16G --ranks 2\n"
      "  fathom plan --model DIR --hardware FILE --context 131072 --zipf 0.8 "
      "--redundant-experts 64 --format json");
}

}  // namespace fathom::cli
