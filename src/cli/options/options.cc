#include "cli/options/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <span>

#include "base/parse_text.h"
#include "base/processors.h"
#include "cli/options/command_options.h"
#include "cli/options/expanded_arguments.h"
#include "cli/options/parser.h"
#include "comm/rank_link.h"
#include "kernels/cpu/isa.h"
#include "runtime/build_info.h"

namespace fathom::cli {
namespace {

constexpr const char* kExamples =
    "Every command has its own help: fathom help generate\n"
    "Examples:\n"
    "  fathom generate \"Once upon a time\"\n"
    "  fathom chat\n"
    "  fathom inspect DIR\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// Returns the number of ranks of this run on this machine that `fathom launch` or Open MPI has
// started; 1 if neither has.
int LocalRanks(const std::string& rank_link) {
  if (const Result<RankLink> link = ParseRankLink(rank_link); link) return link->n_ranks();
  return std::max(std::atoi(Environment("OMPI_COMM_WORLD_LOCAL_SIZE").c_str()), 1);
}

// Returns the first of these variables that is a number.
std::optional<int> NumberInEnvironment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const std::optional<int> number = ParseNumber<int>(Environment(name))) return number;
  }
  return std::nullopt;
}

// Open MPI, Hydra (MPICH, Intel MPI) and srun put the number of processes into the environment. A
// number of 1 means a single process, or comes from a program that encloses this one.
std::optional<MpiStart> StartedByMpi() {
  std::optional<int> n_ranks = NumberInEnvironment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  const bool has_pmix = !Environment("PMIX_RANK").empty();
  if (!n_ranks && has_pmix) n_ranks = NumberInEnvironment({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (n_ranks == 1 || (!n_ranks && !has_pmix)) return std::nullopt;
  const std::optional<int> rank =
      NumberInEnvironment({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  return MpiStart{.n_ranks = n_ranks, .rank = rank.value_or(0)};
}

// Returns how drivers of GPUs enqueue work: settings for finding the kernel of a fault, not for
// users.
GpuDriverOptions GpuDriverOfEnvironment() {
  const std::string graphs = Environment("FATHOM_GPU_GRAPHS");
  return {.waits_after_each = Environment("FATHOM_GPU_SYNC") == "1",
          .uses_graphs = graphs.empty() ? std::nullopt : std::optional(graphs == "1")};
}

// Returns its path by the XDG base directory specification; empty: there is no home directory.
std::filesystem::path HistoryFile() {
  std::filesystem::path state = Environment("XDG_STATE_HOME");
  const std::filesystem::path home = Environment("HOME");
  if (!state.is_absolute()) state = home.is_absolute() ? home / ".local/state" : "";
  return state.empty() ? state : state / "fathom/chat_history";
}

// Reads the settings of `fathom serve` for containers, where a command line is hard to change and
// its keys are visible to all users.
ServeEnvironment ReadServeEnvironment() {
  return {.config = Environment("FATHOM_CONFIG"),
          .host = Environment("FATHOM_HOST"),
          .port = Environment("FATHOM_PORT"),
          .api_key = Environment("FATHOM_API_KEY")};
}

ParsedCommands Defaults() {
  ParsedCommands commands;
  const std::string rank_link = Environment(kRankLinkVariable);
  const std::filesystem::path model = Environment("FATHOM_MODEL");
  const RunOptions run = {.model = model,
                          .backend = "auto",
                          .gpu_driver = GpuDriverOfEnvironment(),
                          .n_threads = std::max(AvailableCores() / LocalRanks(rank_link), 1),
                          .cpu_isa = "",
                          .n_context = {},
                          .ranks = {.link = rank_link, .mpi = StartedByMpi()}};
  const auto set = [&](auto& command) {
    if constexpr (requires { command.run; }) command.run = run;
    if constexpr (requires { command.model; }) command.model = model;
  };
  std::apply([&](auto&... command) { (set(command), ...); }, commands.all);
  auto& chat = std::get<ChatCommand>(commands.all);
  chat.use_style = Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  chat.history = HistoryFile();
  std::get<MakeSliceCommand>(commands.all).n_threads = run.n_threads;
  return commands;
}

// Returns the options of the command with that name.
Options SelectOptions(const std::string& name, ParsedCommands& commands) {
  Options options = {.log_format = commands.log_format};
  std::string level = commands.log_level;
  if (level.empty()) level = name == "serve" ? "info" : "warn";
  const auto* found = std::find(std::begin(kLogLevelNames), std::end(kLogLevelNames), level);
  options.log_level = static_cast<LogLevel>(found - std::begin(kLogLevelNames));
  const auto select = [&](auto& command) {
    if (command.kName == name) options.command = std::move(command);
  };
  std::apply([&](auto&... command) { (select(command), ...); }, commands.all);
  return options;
}

// Splits `fathom launch -n N COMMAND ...` into the words before COMMAND, and the words from it on.
std::pair<std::vector<std::string>, std::vector<std::string>> SplitLaunch(
    const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with('-')) {
    at += words[at].find('=') == std::string::npos && words[at].starts_with("--log") ? 2u : 1u;
  }
  if (at >= words.size() || words[at] != "launch") return {words, {}};
  for (++at; at < words.size() && words[at].starts_with('-');) {
    at += words[at] == "-n" || words[at] == "--ranks" ? 2u : 1u;
  }
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size()));
  return {{words.begin(), end}, {end, words.end()}};
}

std::vector<std::string_view> Names(std::span<const Isa> isas) {
  std::vector<std::string_view> names;
  for (const Isa isa : isas) names.push_back(Name(isa));
  return names;
}

// Returns the output of --version, without a newline at the end.
std::string VersionText() {
  const BuildInfo build = GetBuildInfo();
  return fmt::format(
      "fathom {}, commit {}\n"
      "compiler: {}, {}\n"
      "instruction sets: compiled {}; present {}\n"
      "backends: cpu, reference; for GPUs see fathom devices",
      build.version, build.commit, build.compiler, build.build_type,
      fmt::join(Names(kAllIsas), " "), fmt::join(Names(AvailableIsas()), " "));
}

CommandLine ParseWords(const std::vector<std::string>& words) {
  ParsedCommands commands = Defaults();
  Parser parser("Fathom runs DeepSeek-V4 from its published files.", kExamples, VersionText());
  AddCommands(parser.root(), commands);
  ParsedLine line = parser.Parse(words);
  if (line.command.empty()) {
    return {
        .out = std::move(line.out), .error = std::move(line.error), .exit_code = line.exit_code};
  }
  return {.options = SelectOptions(line.command, commands)};
}

}  // namespace

CommandLine ParseCommandLine(int argc, char** argv) {
  const Result<ExpandedArguments> arguments =
      ExpandArguments({argv + std::min(argc, 1), argv + argc}, ReadServeEnvironment());
  if (!arguments) {
    return {.error = fmt::format("fathom: error: {}\n", arguments.error().message), .exit_code = 2};
  }
  const auto [words, launched] = SplitLaunch(arguments->words);
  if (!launched.empty()) {
    // Checks the words once, so that not every rank reports a mistake.
    CommandLine inner = ParseWords(launched);
    if (!inner.options) return inner;
  }
  CommandLine line = ParseWords(words);
  if (line.options) {
    line.options->dropped = arguments->dropped;
    line.options->rank_link = Environment(kRankLinkVariable);
    if (auto* serve = std::get_if<ServeCommand>(&line.options->command); serve != nullptr) {
      serve->config_files_with_keys.assign(arguments->files_with_keys.begin(),
                                           arguments->files_with_keys.end());
    }
    if (auto* launch = std::get_if<LaunchCommand>(&line.options->command); launch != nullptr) {
      launch->arguments = launched;
    }
  }
  return line;
}

}  // namespace fathom::cli
