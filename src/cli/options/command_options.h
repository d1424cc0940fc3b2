// The options of each command: declared once, for parsing and for --help.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>

#include "cli/options/options.h"
#include "cli/options/parser.h"

namespace fathom::cli {

// The variables that the parser fills; only the named command's are valid.
struct ParsedCommands {
  std::string log_level;  // empty: the default of the command
  LogFormat log_format = LogFormat::kText;
  CommandsIn<std::tuple> all;
};

// Adds all commands and the options of the program. `commands` holds the defaults and must outlive
// the parsing.
void AddCommands(Command root, ParsedCommands& commands);

// Add single commands, as AddCommands does.
void AddCommand(Command& root, BatchCommand& options);
void AddCommand(Command& root, ServeCommand& options);
void AddCommand(Command& root, PlanCommand& options);
// Adds `serve` to `bench`, excluding the options of `bench` itself.
void AddBenchServe(Command& bench, BenchServeCommand& options);

// Options that several commands share, so that they are declared and checked equally everywhere.

// The headings in --help for options that several commands have; "" is the command's own heading.
inline constexpr const char* kOwnGroup = "Options";
inline constexpr const char* kModelGroup = "Model";
inline constexpr const char* kSamplingGroup = "Sampling";

// The values hold the defaults and must outlive the parsing.
void AddModel(Command& command, std::filesystem::path& model);
// Adds the directory as an argument without a name; call it after AddModel.
void AddModelArgument(Command& command, std::filesystem::path& model);
void AddThreads(Command& command, int& n_threads);
// Adds threads, processors, instruction set, memory of the weights.
void AddMachine(Command& command, RunOptions& run);
// Adds the choice of what computes the experts for which a GPU has no memory.
void AddHostExperts(Command& command, HostExpertChoice& choice);
// Adds the speeds of a host's disk and memory, for predictions.
void AddHostSpeeds(Command& command, HostSpeeds& speeds);
// Adds the ranks of a plan that has --memory, and how many of them share each part of the model.
void AddPlannedRanks(Command& command, std::optional<int>& n_ranks, RankOptions& ranks);
// Adds how ranks divide cached rows and exchange the outputs of experts.
void AddRankWays(Command& command, RankOptions& ranks);
// Adds the division of the model among ranks, and the placement of the experts.
void AddRanks(Command& command, RankOptions& ranks);
// Adds model, machine and context; how requests are served (caches, batches, drafts, the trace);
// and the sampling.
void AddEngine(Command& command, EngineCommand& options);
// Adds the default for reasoning in chats, and the chat format.
void AddChats(Command& command, ApiCommand& options);
// Adds the form of answers: --schema, --regex, --grammar, which exclude each other.
void AddForm(Command& command, FormOptions& form);
void AddProfile(Command& command, std::string& profile);
void AddDefaultEffort(Command& command, std::string& effort);

}  // namespace fathom::cli
