#include "cli/options/plan_options.h"

#include <CLI/CLI.hpp>

#include "cli/options/option_checks.h"
#include "cli/options/option_groups.h"

namespace fathom::cli {
namespace {

constexpr const char* kWorkGroup = "Work";
constexpr const char* kExpertGroup = "Experts";
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

void AddWork(CLI::App* command, PlanCommand& options) {
  command->option_defaults()->group(kWorkGroup);
  command
      ->add_option("--context", options.n_context,
                   "Tokens before the one that is decoded, and of a sequence's caches (default: "
                   "8192, or what the model has)")
      ->type_name("N")
      ->check(Integer(1, kMostTokens));
  command
      ->add_option("--prompt", options.n_prompt,
                   "Tokens of the prompt whose TTFT is told (default: 2048, or the context)")
      ->type_name("N")
      ->check(Integer(1, kMostTokens));
  command
      ->add_option("--concurrency", options.concurrency,
                   "Sequences decoded at once, on all devices together (default: 1)")
      ->type_name("N")
      ->check(Integer(1, 1'000'000));
  command->add_option("--chunk", options.chunk, "Prompt tokens of a step (default: 512)")
      ->type_name("C")
      ->check(Integer(1, 65536));
  command
      ->add_option(
          "--micro-batches", options.micro_batches,
          "Parts of a batch that are under way at once in a pipeline (default: its stages)")
      ->type_name("N")
      ->check(Integer(1, 1024));
  command->add_flag("--decode-context-parallel", options.decode_context_parallel,
                    "Tensor ranks divide the cached rows that queries choose from, not only where "
                    "memory is short");
}

void AddExperts(CLI::App* command, PlanCommand& options) {
  command->option_defaults()->group(kExpertGroup);
  CLI::Option* zipf =
      command
          ->add_option("--zipf", options.zipf,
                       "The i-th most popular expert of a layer is chosen i^-S times as often "
                       "(default: 0, all alike)")
          ->type_name("S")
          ->check(Number(0, 10));
  command
      ->add_option("--expert-trace", options.expert_trace,
                   "How often experts were chosen, as docs/plan.md says")
      ->type_name("FILE")
      ->excludes(zipf);
  command
      ->add_option("--redundant-experts", options.n_redundant,
                   "Experts are placed by the balancer, with R replicas more (default: not "
                   "balanced)")
      ->type_name("R")
      ->check(Integer(0, 65536));
  command
      ->add_option_function<std::string>(
          "--exchange", [&options](const std::string& name) { options.fused = name == "fused"; },
          "How experts' outputs travel: unfused, or fused with their computation (default: "
          "fused)")
      ->type_name("NAME")
      ->check(OneOf({"unfused", "fused"}));
}

}  // namespace

void AddPlan(CLI::App& app, PlanCommand& options) {
  CLI::App* command = app.add_subcommand(
      "plan", "Say which cuts of a model fit some hardware, and how fast each should be");
  command->add_option("--hardware", options.hardware, "The devices and links, as docs/plan.md says")
      ->type_name("FILE")
      ->required();
  AddModel(command, options.model);
  command
      ->add_option("--shape", options.shape,
                   "flash or pro: the published model, in place of --model")
      ->type_name("NAME")
      ->check(OneOf({"flash", "pro"}))
      ->excludes("--model");
  command
      ->add_option_function<std::string>(
          "--format", [&options](const std::string& name) { options.json = name == "json"; },
          "text or json (default: text)")
      ->type_name("NAME")
      ->check(OneOf({"text", "json"}));
  command->add_option("--top", options.n_rows, "Rows of the table (default: 16; 0: all)")
      ->type_name("N")
      ->check(AtLeast(0));
  AddWork(command, options);
  AddExperts(command, options);
  command->footer(
      "A directory with nothing but config.json is enough. docs/plan.md says what the figures\n"
      "mean and how far they were from measured ones.\n"
      "Examples:\n"
      "  fathom plan --shape flash --hardware docs/hardware/h200x8.json --concurrency 64\n"
      "  fathom plan --model DIR --hardware FILE --context 131072 --zipf 0.8 "
      "--redundant-experts 64 --format json");
}

}  // namespace fathom::cli
