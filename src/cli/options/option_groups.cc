#include "cli/options/option_groups.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <string>
#include <vector>

#include "cli/options/option_checks.h"

namespace fathom::cli {
namespace {

constexpr const char* kModelGroup = "Model";
constexpr const char* kEngineGroup = "Engine";
constexpr const char* kRanksGroup = "Ranks (fathom launch, mpirun)";

void AddRunThreads(CLI::App* command, RunOptions& run) {
  CLI::Option* threads = AddThreads(command, run.n_threads)->group(kModelGroup);
  CLI::Option* pin = command
                         ->add_option_function<std::string>(
                             "--pin", [&run](const std::string& name) { run.pin = name == "on"; },
                             "Bind each thread to a physical core of its own: on or off (default: "
                             "off)")
                         ->type_name("MODE")
                         ->check(OneOf({"on", "off"}))
                         ->group(kModelGroup);
  command
      ->add_option_function<std::string>(
          "--cpus",
          [&run](const std::string& list) {
            run.processors = ProcessorsOf(list);
            run.n_threads = static_cast<int>(run.processors.size());
          },
          "One thread bound to each of these processors, like 0-3,8")
      ->type_name("LIST")
      ->check(Processors())
      ->excludes(threads)
      ->excludes(pin)
      ->group(kModelGroup);
}

void AddWeightMemory(CLI::App* command, WeightMemory& memory) {
  command
      ->add_flag("--preload", memory.preload,
                 "Read all weights before the first token, with all threads")
      ->group(kModelGroup);
  command
      ->add_flag("--lock", memory.lock, "Read all weights and keep them in memory (RLIMIT_MEMLOCK)")
      ->group(kModelGroup);
  command
      ->add_flag("--huge-pages", memory.huge_pages,
                 "Copy all weights into huge pages: reads faster, loads slower")
      ->group(kModelGroup);
}

template <class T>
CLI::Option* AddSampling(CLI::App* command, const std::string& name, T& value,
                         const std::string& what, const CLI::Validator& check) {
  return command->add_option(name, value, what)->check(check)->group(kSamplingGroup);
}

void AddPenalties(CLI::App* command, SamplingOptions& sampling) {
  AddSampling(command, "--repetition-penalty", sampling.repetition_penalty,
              "Divides the logits of tokens that have occurred; 1 is off", Number(0.01, 100))
      ->type_name("R");
  AddSampling(command, "--presence-penalty", sampling.presence_penalty,
              "Subtracted once from generated tokens, -2 to 2", Number(-2, 2))
      ->type_name("P");
  AddSampling(command, "--frequency-penalty", sampling.frequency_penalty,
              "Subtracted for every time a token was generated, -2 to 2", Number(-2, 2))
      ->type_name("F");
  command
      ->add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
              sampling.logit_bias.push_back(LogitBiasOf(value));
            }
          },
          "Adds V, -100 to 100, to the logit of token ID; may be repeated")
      ->type_name("ID=V")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(LogitBias())
      ->group(kSamplingGroup);
}

void AddStops(CLI::App* command, SamplingOptions& sampling) {
  AddSampling(command, "-n,--max-tokens", sampling.max_tokens, "Most tokens to generate",
              AtLeast(0))
      ->type_name("N");
  AddSampling(command, "--min-tokens", sampling.min_tokens,
              "No end and no stop before this many tokens", AtLeast(0))
      ->type_name("N");
  command->add_option("--stop", sampling.stop_strings, "Stop before this text; may be repeated")
      ->type_name("TEXT")
      ->type_size(1)
      ->allow_extra_args(false)
      ->group(kSamplingGroup);
  command->add_option("--stop-token", sampling.stop_tokens, "Stop at this token; may be repeated")
      ->type_name("ID")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(Integer(0, std::numeric_limits<Token>::max()))
      ->group(kSamplingGroup);
  command->add_flag("--ignore-eos", sampling.ignore_eos, "Do not stop at the end token")
      ->group(kSamplingGroup);
}

void AddKvMemory(CLI::App* command, ServingOptions& engine) {
  command
      ->add_option_function<std::string>(
          "--kv-memory",
          [&engine](const std::string& size) { engine.kv_memory_bytes = MemorySizeOf(size); },
          "Memory for cached keys, like 512M or 16G (default: what --max-sequences need at full "
          "context and, for the prefix cache, four times as much or 1G more, whichever is less; at "
          "most half of the memory available)")
      ->type_name("SIZE")
      ->check(MemorySize())
      ->group(kEngineGroup);
  CLI::Option* disk =
      command
          ->add_option("--kv-disk", engine.kv_disk,
                       "Keep what is cached in this directory too, for the next start")
          ->type_name("DIR")
          ->group(kEngineGroup);
  command
      ->add_option_function<std::string>(
          "--kv-disk-size",
          [&engine](const std::string& size) { engine.kv_disk_bytes = MemorySizeOf(size); },
          "Most bytes of files there (default: 16G)")
      ->type_name("SIZE")
      ->check(MemorySize())
      ->needs(disk)
      ->group(kEngineGroup);
  command
      ->add_option_function<std::string>(
          "--prefix-cache",
          [&engine](const std::string& name) { engine.prefix_cache = name == "on"; },
          "Find what was read before by its tokens, in blocks of 128: on or off (default: on)")
      ->type_name("MODE")
      ->check(OneOf({"on", "off"}))
      ->group(kEngineGroup);
}

void AddDrafts(CLI::App* command, ServingOptions& engine) {
  command
      ->add_option_function<std::string>(
          "--draft",
          [&engine](const std::string& name) { engine.draft_depth = DraftDepthOf(name); },
          "Tokens that the MTP head of the checkpoint drafts ahead, 1 to 4; auto: as many as "
          "measurement pays; off (default: auto where there is a head)")
      ->type_name("DEPTH")
      ->check(DraftDepth())
      ->group(kEngineGroup);
  // For measurements alone: the text is not the model's.
  command->add_option("--draft-acceptance", engine.draft_acceptance)
      ->check(Number(0, 1))
      ->group("");
}

// Where the routed experts are, and when they move.
void AddExpertBalance(CLI::App* command, RankOptions& ranks) {
  command
      ->add_option("--redundant-experts", ranks.n_redundant_experts,
                   "Experts of each layer that the expert ranks have a second time (default: 0)")
      ->type_name("N")
      ->check(AtLeast(0))
      ->group(kRanksGroup);
  command
      ->add_option("--eplb-interval", ranks.eplb_interval,
                   "Balance the expert ranks anew every so many tokens; 0: never (default)")
      ->type_name("TOKENS")
      ->check(AtLeast(0))
      ->group(kRanksGroup);
  command
      ->add_option("--expert-placement", ranks.expert_placement,
                   "Where the experts are at first: a file of --save-expert-placement")
      ->type_name("FILE")
      ->group(kRanksGroup);
  command
      ->add_option("--save-expert-placement", ranks.save_expert_placement,
                   "Write where the experts are whenever they have moved")
      ->type_name("FILE")
      ->group(kRanksGroup);
}

}  // namespace

void AddModel(CLI::App* command, std::filesystem::path& model) {
  command
      ->add_option("--model", model,
                   "Directory of the checkpoint (default: FATHOM_MODEL, else the embedded model)")
      ->type_name("DIR")
      ->group(kModelGroup);
}

CLI::Option* AddThreads(CLI::App* command, int& n_threads) {
  return command
      ->add_option("--threads", n_threads,
                   "Threads (default: the physical cores this process may use)")
      ->type_name("N")
      ->check(Integer(1, 4096));
}

void AddMachine(CLI::App* command, RunOptions& run) {
  AddRunThreads(command, run);
  AddWeightMemory(command, run.weights);
  command
      ->add_option(
          "--cpu-isa", run.cpu_isa,
          "Instruction set: scalar, avx2, avx512 or avx512_bf16 (default: the best present)")
      ->type_name("ISA")
      ->check(OneOf({"scalar", "avx2", "avx512", "avx512_bf16"}))
      ->group(kModelGroup);
}

void AddRanks(CLI::App* command, RankOptions& ranks) {
  command
      ->add_option("--tp", ranks.n_tensor,
                   "Tensor ranks: share heads, shared experts and vocabulary (default: all ranks "
                   "of a stage)")
      ->type_name("N")
      ->check(AtLeast(1))
      ->group(kRanksGroup);
  command->add_option("--pp", ranks.n_stages, "Stages, each with some of the layers (default: 1)")
      ->type_name("N")
      ->check(AtLeast(1))
      ->group(kRanksGroup);
  command
      ->add_option(
          "--ep", ranks.n_expert,
          "Ranks that share the routed experts: 1 or all of a stage (default: all, if that "
          "divides the experts)")
      ->type_name("N")
      ->check(AtLeast(1))
      ->group(kRanksGroup);
  command
      ->add_flag("--dp-attention", ranks.dp_attention,
                 "Ranks of a stage have sequences of their own, and share the routed experts")
      ->group(kRanksGroup);
  command
      ->add_flag("--decode-context-parallel", ranks.decode_context_parallel,
                 "Tensor ranks divide the cached rows that queries choose from, instead of caching "
                 "all of them each")
      ->group(kRanksGroup);
  command
      ->add_option("--expert-exchange", ranks.expert_exchange,
                   "How outputs of experts travel: fused (to the token's owner, while others are "
                   "computed) or gather (to all ranks) (default: fused where sizes allow it)")
      ->type_name("HOW")
      ->check(OneOf({"fused", "gather"}))
      ->group(kRanksGroup);
  AddExpertBalance(command, ranks);
}

void AddRun(CLI::App* command, RunOptions& run) {
  AddModel(command, run.model);
  AddMachine(command, run);
  AddRanks(command, run.ranks);
  command
      ->add_option("--context", run.n_context,
                   "Tokens of prompt and answer together that memory is taken for")
      ->type_name("N")
      ->check(AtLeast(1))
      ->group(kModelGroup);
}

void AddEngine(CLI::App* command, ServingOptions& engine) {
  command
      ->add_option("--max-batch-tokens", engine.max_batch_tokens,
                   "Most tokens that the model computes at once (default: 512)")
      ->type_name("N")
      ->check(Integer(1, 65536))
      ->group(kEngineGroup);
  command
      ->add_option(
          "--max-sequences", engine.max_sequences,
          fmt::format("Answers that are computed at once (default: {})", engine.max_sequences))
      ->type_name("N")
      ->check(Integer(1, 4096))
      ->group(kEngineGroup);
  AddKvMemory(command, engine);
  AddDrafts(command, engine);
  command
      ->add_option("--trace", engine.trace,
                   "Write what was computed when, for chrome://tracing or ui.perfetto.dev")
      ->type_name("FILE")
      ->group(kEngineGroup);
}

void AddAllSampling(CLI::App* command, SamplingOptions& sampling) {
  command
      ->add_option("--seed", sampling.seed, "Same seed, same text (default: a new one each time)")
      ->type_name("N")
      ->check(Seed())
      ->group(kSamplingGroup);
  AddSampling(command, "--temperature", sampling.temperature,
              "0 to 2; 0 is greedy (default: generation_config.json of the model, else 1)",
              Number(0, 2))
      ->type_name("T");
  AddSampling(command, "--top-p", sampling.top_p,
              "Choose among the fewest tokens of this total probability (default: as above)",
              NumberAbove(0, 1))
      ->type_name("P");
  AddSampling(command, "--top-k", sampling.top_k, "Choose among the K best tokens; 0 is off",
              AtLeast(0))
      ->type_name("K");
  AddSampling(command, "--min-p", sampling.min_p,
              "Drop tokens less probable than this share of the best one's", Number(0, 1))
      ->type_name("P");
  AddPenalties(command, sampling);
  AddStops(command, sampling);
}

void AddThinking(CLI::App* command, bool& thinking) {
  command
      ->add_option_function<std::string>(
          "--thinking", [&thinking](const std::string& name) { thinking = name == "on"; },
          "Reasoning before the answers of chats that do not say: on or off (default: on)")
      ->type_name("MODE")
      ->check(OneOf({"on", "off"}));
}

void AddProfile(CLI::App* command, std::string& profile) {
  command
      ->add_option("--profile", profile,
                   "Chat format: v4-preview or v4-0731 (default: what the checkpoint says)")
      ->type_name("NAME")
      ->check(OneOf({"v4-preview", "v4-0731"}));
}

}  // namespace fathom::cli
