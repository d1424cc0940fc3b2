// Groups of options that several commands share: declared once, for parsing and for --help.
#ifndef FATHOM_CLI_OPTION_GROUPS_H_
#define FATHOM_CLI_OPTION_GROUPS_H_

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fathom::cli {

std::vector<std::string> Names(std::span<const std::string_view> names);

// What each adds writes to its second argument, which holds the defaults and must outlive the
// parsing.

// --model
void AddModel(CLI::App* command, std::filesystem::path& model);
// --threads
CLI::Option* AddThreads(CLI::App* command, int& n_threads);
// --threads and where they run, where the weights lie, the instruction set.
void AddMachine(CLI::App* command, RunOptions& run);
// --model, --context and the machine.
void AddRun(CLI::App* command, RunOptions& run);
// How requests are served: caches, batches, drafts, the trace.
void AddEngine(CLI::App* command, EngineCliOptions& engine);
// How tokens are chosen and where answers end.
void AddAllSampling(CLI::App* command, SamplingOptions& sampling);
// --logprobs, which only makes sense where the output has room for them.
void AddLogprobs(CLI::App* command, SamplingOptions& sampling);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_OPTION_GROUPS_H_
