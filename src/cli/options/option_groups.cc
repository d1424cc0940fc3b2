#include "cli/options/command_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "cli/options/option_values.h"
#include "engine/prompt_lookup.h"
#include "engine/sampling_fields.h"
#include "experts/streaming/guess_policy.h"
#include "kernels/registry.h"
#include "model/draft/drafters.h"

namespace fathom::cli {
namespace {

void AddKvMemory(Command& command, ServingOptions& serving) {
  command.Add(
      {"--kv-memory", "SIZE",
       "Memory for cached keys, like 512M or 16G (default: what --max-sequences need at full "
       "context and, for the prefix cache, four times as much or 1G more, whichever is less; at "
       "most half of the memory available)",
       MemorySize(serving.kv_memory_bytes)});
  command.Add({"--kv-disk", "DIR", "Also store cached blocks in this directory, for the next start",
               Text(serving.kv_disk)});
  command.Add({.names = "--kv-disk-size",
               .value = "SIZE",
               .help = "Most bytes of these files (default: 16G)",
               .read = MemorySize(serving.kv_disk_bytes),
               .needs = "--kv-disk"});
  command.Add({"--prefix-cache", "MODE",
               "Reuse cached prefixes, in blocks of 128 tokens: on or off (default: on)",
               OnOff(serving.prefix_cache)});
}

// Adds the placement of the routed experts, and its rebalancing.
void AddExpertBalance(Command& command, RankOptions& ranks) {
  command.Add({"--redundant-experts", "N",
               "Additional replicas of experts in each layer (default: 0)",
               AtLeast(0, ranks.n_redundant_experts)});
  command.Add({"--eplb-interval", "TOKENS",
               "Rebalance the expert ranks after this many tokens; 0: never (default)",
               AtLeast(0, ranks.eplb_interval)});
  command.Add({"--expert-placement", "FILE",
               "Initial placement of the experts: a file of --save-expert-placement",
               Text(ranks.expert_placement)});
  command.Add({"--save-expert-placement", "FILE",
               "Write the placement of the experts after every rebalancing",
               Text(ranks.save_expert_placement)});
}

// Adds, for example, --top-p for the field top_p.
void AddField(Command& command, const SamplingField& field, SamplingOptions& sampling) {
  std::string name = fmt::format("--{}", field.name);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto store = [&sampling, &field](double value) { sampling.fields[field.name] = value; };
  command.Add({.names = name,
               .value = std::string(field.value),
               .help = std::string(field.help),
               .read = field.number == nullptr
                           ? ReadInteger(0, std::numeric_limits<std::int64_t>::max(),
                                         [store](std::int64_t n) { store(static_cast<double>(n)); })
                           : ReadNumber(field.low, field.high, true, store)});
}

void AddStops(Command& command, SamplingOptions& sampling) {
  command.Add({"-n,--max-tokens", "N", "Most tokens to generate", AtLeast(0, sampling.max_tokens)});
  command.Add({"--min-tokens", "N", "No end and no stop before this many tokens",
               AtLeast(0, sampling.min_tokens)});
  command.Add({"--stop", "TEXT", "Stop before this text; may be repeated",
               Text(sampling.stop_strings), Repeat::kEach});
  command.Add({"--stop-token", "ID", "Stop at this token; may be repeated",
               Integer(0, std::numeric_limits<Token>::max(), sampling.stop_tokens), Repeat::kEach});
  command.AddFlag("--ignore-eos", sampling.ignore_eos, "Do not stop at the end token");
}

void AddRun(Command& command, RunOptions& run) {
  AddModel(command, run.model);
  AddMachine(command, run);
  AddRanks(command, run.ranks);
  command.Group(kModelGroup);
  command.Add({"--context", "N", "Most tokens of a prompt and its answer together",
               AtLeast(1, run.n_context)});
}

void AddServing(Command& command, ServingOptions& serving) {
  command.Group("Engine");
  command.Add(
      {"--max-batch-tokens", "N",
       "Most tokens that the model computes at once (default: 512, and up to 8192 where experts "
       "are read from disk)",
       Integer(1, 65536, serving.max_batch_tokens)});
  command.Add(
      {"--max-sequences", "N",
       fmt::format("Answers that are computed at once (default: {})", serving.max_sequences),
       Integer(1, 4096, serving.max_sequences)});
  AddKvMemory(command, serving);
  command.Add(
      {"--draft", "DEPTH",
       fmt::format("Tokens that the head of the checkpoint drafts, 1 to {} (MTP: 4); auto: as "
                   "many as measurement shows to pay; lookup: tokens that followed the newest "
                   "three or more when they occurred before, as many as pay, and no head; "
                   "lookup:1 to lookup:{}: always so many; all: auto and lookup; off (default: "
                   "auto if there is a head)",
                   GreatestDraftDepth(), kMostLookups),
       DraftDepths(serving.draft_depth, serving.lookup_depth)});
  // Hidden, for measurements: the answers are not the model's.
  command.Add({"--draft-acceptance", "", "", Number(0, 1, serving.draft_acceptance)});
  command.Add({"--trace", "FILE",
               "Write a trace of all steps, for chrome://tracing or ui.perfetto.dev",
               Text(serving.trace)});
}

void AddSampling(Command& command, SamplingOptions& sampling) {
  command.Group(kSamplingGroup);
  command.Add(
      {"--seed", "N", "Same seed, same text (default: a new one each time)", Seed(sampling.seed)});
  for (const SamplingField& field : SamplingFields()) AddField(command, field, sampling);
  command.Add({"--logit-bias", "ID=V",
               "Adds V, -100 to 100, to the logit of token ID; may be repeated",
               LogitBias(sampling.logit_bias), Repeat::kEach});
  AddStops(command, sampling);
}

void AddPaths(Command& command, ExecutionPaths& paths) {
  command.Add({"--products", "WAY",
               "Order of the sums: exact (the bits of all devices), fast or fp8 (tensor cores; no "
               "backend has them yet) (default: auto)",
               OneOf({std::begin(kProductPaths), std::end(kProductPaths)}, paths.products)});
  command.Add({"--attention", "WAY",
               "portable, or flash (tensor cores; no backend has it yet) (default: auto)",
               OneOf({std::begin(kAttentionPaths), std::end(kAttentionPaths)}, paths.attention)});
  command.Add({"--moe", "WAY",
               "Routed experts of a device: grouped, or fused with the exchange between ranks (no "
               "backend has it yet) (default: auto)",
               OneOf({std::begin(kMoePaths), std::end(kMoePaths)}, paths.moe)});
}

// Adds the numbers of ranks that share the parts of a model. needs: an option that these options
// require; empty: none.
void AddRankCounts(Command& command, const std::string& needs, RankOptions& ranks) {
  command.Group("Ranks (fathom launch, mpirun)");
  command.Add({.names = "--tp",
               .value = "N",
               .help = "Tensor ranks: share heads, shared experts and vocabulary (default: all "
                       "ranks of a stage)",
               .read = AtLeast(1, ranks.n_tensor),
               .needs = needs});
  command.Add({.names = "--pp",
               .value = "N",
               .help = "Stages, each with some of the layers (default: 1)",
               .read = AtLeast(1, ranks.n_stages),
               .needs = needs});
  command.Add({.names = "--ep",
               .value = "N",
               .help = "Ranks that share the routed experts: 1 or all of a stage (default: all, if "
                       "that divides the experts)",
               .read = AtLeast(1, ranks.n_expert),
               .needs = needs});
  command.AddFlag("--dp-attention", ranks.dp_attention,
                  "Ranks of a stage have their own sequences, and share the routed experts",
                  /*excludes=*/"", needs);
}

}  // namespace

void AddModel(Command& command, std::filesystem::path& model) {
  command.Group(kModelGroup);
  command.Add({"--model", "DIR",
               "Directory of the checkpoint (default: FATHOM_MODEL, else the embedded model)",
               Text(model)});
}

void AddModelArgument(Command& command, std::filesystem::path& model) {
  command.Add({.names = "directory",
               .value = "DIR",
               .help = "As --model",
               .read = Text(model),
               .excludes = {"--model"}});
}

void AddThreads(Command& command, int& n_threads) {
  command.Add({"--threads", "N", "Threads (default: the physical cores this process may use)",
               Integer(1, 4096, n_threads)});
}

void AddMachine(Command& command, RunOptions& run) {
  command.Group(kModelGroup);
  AddThreads(command, run.n_threads);
  command.Add({"--pin", "MODE",
               "Bind each thread to a physical core of its own: on or off (default: off)",
               OnOff(run.pin)});
  command.Add({.names = "--cpus",
               .value = "LIST",
               .help = "One thread bound to each of these processors, like 0-3,8",
               .read = Processors([&run](std::vector<int> processors) {
                 run.n_threads = static_cast<int>(processors.size());
                 run.processors = std::move(processors);
               }),
               .excludes = {"--threads", "--pin"}});
  command.Add({"--memory", "SIZE",
               "Memory that the model may take, like 16G: experts that do not fit are read from "
               "disk; with ranks, memory of each (default: what the system and its control groups "
               "have, less 5 % and at least 1G, in a control group 256M; with ranks: experts are "
               "mapped; CPU only)",
               MemorySize(run.memory)});
  command.Add({"--mirror", "DIR",
               "Copy of the checkpoint on another drive: experts that do not fit in memory are "
               "read from both, and from this one where the other fails",
               Text(run.mirror)});
  command.Add({"--expert-heat", "DIR",
               "Keep the uses of experts that are read from disk in this folder: the next run "
               "begins with those used most (docs/streaming.md)",
               Text(run.expert_heat)});
  command.Add({"--expert-guesses", "MODE",
               "Read experts from disk that the next layer will probably use: on, off, or auto: "
               "while it is measured to pay (default: auto; docs/streaming.md)",
               OneOf(kGuessModeNames, run.expert_guesses)});
  command.AddFlag("--preload", run.weights.preload,
                  "Read all weights before the first token, with all threads");
  command.AddFlag("--lock", run.weights.lock,
                  "Read all weights and keep them in memory (RLIMIT_MEMLOCK)");
  command.AddFlag("--huge-pages", run.weights.huge_pages,
                  "Copy all weights into huge pages: reads faster, loads slower");
  command.Add({"--backend", "NAME",
               "What computes: cpu, cuda (NVIDIA) or hip (AMD); auto: the CPU (default: auto)",
               OneOf({std::begin(kBackendNames), std::end(kBackendNames)}, run.backend)});
  command.Add({.names = "--device",
               .value = "N",
               .help = "Number of the GPU, as fathom devices lists them (default: 0)",
               .read = Integer(0, 1023, run.device),
               .needs = "--backend"});
  AddPaths(command, run.paths);
  AddHostExperts(command, run.host_experts);
  command.Add({"--cpu-isa", "ISA",
               "Instruction set: scalar, avx2, avx512, avx512_bf16 or amx (default: the fastest)",
               OneOf({std::begin(kIsaNames), std::end(kIsaNames)}, run.cpu_isa)});
}

void AddHostExperts(Command& command, HostExpertChoice& choice) {
  command.Add({"--experts", "WHERE",
               "Experts for which a GPU has no memory: gpu (it reads them over the bus), cpu "
               "(computes them) or auto: gpu up to 15 % of all experts (default: auto)",
               OneOf(kHostExpertNames, choice)});
}

void AddHostSpeeds(Command& command, HostSpeeds& speeds) {
  constexpr double kGiga = 1e9;
  command.Add({.names = "--disk-gb-s",
               .value = "X",
               .help = "GB/s of the disk, for many reads at once (default: 3)",
               .read = ReadNumber(0, 1e6, false, [&](double x) { speeds.disk = x * kGiga; }),
               .needs = "--memory"});
  command.Add({.names = "--memory-gb-s",
               .value = "X",
               .help = "GB/s that all threads read from memory (default: 40)",
               .read = ReadNumber(0, 1e6, false, [&](double x) { speeds.memory = x * kGiga; }),
               .needs = "--memory"});
}

void AddPlannedRanks(Command& command, std::optional<int>& n_ranks, RankOptions& ranks) {
  command.Add({.names = "-n,--ranks",
               .value = "N",
               .help = "Plan so many ranks on this machine, each with --memory: a line for each "
                       "rank, and one for all",
               .read = Integer(1, 4096, n_ranks),
               .needs = "--memory"});
  AddRankCounts(command, "--ranks", ranks);
}

void AddRankWays(Command& command, RankOptions& ranks) {
  command.AddFlag(
      "--decode-context-parallel", ranks.decode_context_parallel,
      "Tensor ranks divide the cached rows that queries choose from, instead of each caching all");
  command.Add({"--expert-exchange", "HOW",
               "Exchange of expert outputs: fused (to the token's owner, while others are "
               "computed) or gather (to all ranks) (default: fused where sizes allow it)",
               OneOf({"fused", "gather"}, ranks.expert_exchange)});
}

void AddRanks(Command& command, RankOptions& ranks) {
  AddRankCounts(command, /*needs=*/"", ranks);
  AddRankWays(command, ranks);
  AddExpertBalance(command, ranks);
}

void AddEngine(Command& command, EngineCommand& options) {
  AddRun(command, options.run);
  AddServing(command, options.engine);
  AddSampling(command, options.sampling);
}

void AddChats(Command& command, ApiCommand& options) {
  command.Add(
      {"--thinking", "MODE",
       "Reasoning in chats that do not choose: on or off (default: on if the checkpoint has "
       "learned to reason)",
       OnOff(options.thinking)});
  AddDefaultEffort(command, options.defaults.encoding.effort);
  AddProfile(command, options.profile);
  command.Add({"--tool-grammar", "MODE",
               "Calls of tools that are not strict: auto (well-formed, with the names of the tools "
               "and of their parameters; a call that tool_choice demands has the required ones), "
               "strict (with values as the schemas say) or off (default: auto)",
               OneOf(kToolGrammarNames, options.defaults.tool_grammar)});
  command.Add(
      {"--constraint-memory", "SIZE",
       "Memory for forms of answers (schemas, regular expressions, grammars, calls of tools): what "
       "does not fit is made again when it is needed, or waits (default: a sixteenth of the memory "
       "available, from 512M to 4G)",
       MemorySize(options.constraint_memory)});
  command.AddFlag("--openai-strict-rules", options.defaults.openai_strict_rules,
                  "Refuse strict schemas that OpenAI refuses: the root is an object, objects are "
                  "closed, all properties are required");
  command.Add({"--text-only-images", "WHERE",
               "Replace images and other parts that are not text by [Unsupported Image] in earlier "
               "turns, in all, or refuse them: earlier, all or refuse (default: earlier)",
               OneOf(kMediaPolicyNames, options.defaults.media)});
}

void AddForm(Command& command, FormOptions& form) {
  command.Add({"--schema", "FILE",
               "Answers are JSON that this JSON Schema describes; - for standard input",
               Text(form.schema)});
  command.Add({.names = "--regex",
               .value = "RE",
               .help = "Answers match this regular expression from beginning to end",
               .read = Text(form.regex),
               .excludes = {"--schema"}});
  command.Add({.names = "--grammar",
               .value = "FILE",
               .help = "Answers follow this GBNF grammar; - for standard input",
               .read = Text(form.grammar),
               .excludes = {"--schema", "--regex"}});
}

void AddProfile(Command& command, std::string& profile) {
  command.Add({"--prompt-profile,--profile", "NAME",
               "Chat format: v4-preview or v4-0731 (default: the checkpoint's)",
               OneOf({"v4-preview", "v4-0731"}, profile)});
}

void AddDefaultEffort(Command& command, std::string& effort) {
  command.Add(
      {"--default-effort", "NAME",
       "Reasoning effort of chats that do not choose: none, minimal, low, medium, high, "
       "xhigh, max or ultra (default: high, as the hosted API)",
       OneOf({"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}, effort)});
}

}  // namespace fathom::cli
