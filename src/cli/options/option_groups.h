// Options that several commands share, so that they are said and checked alike everywhere.
#pragma once

#include <filesystem>
#include <string>

#include "cli/options/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fathom::cli {

// The heading of --help under which a command's own sampling options belong.
inline constexpr const char* kSamplingGroup = "Sampling";

// The values hold the defaults and must outlive the parsing.
void AddModel(CLI::App* command, std::filesystem::path& model);
CLI::Option* AddThreads(CLI::App* command, int& n_threads);
// Threads, processors, instruction set, memory of the weights.
void AddMachine(CLI::App* command, RunOptions& run);
// How several ranks share the model.
void AddRanks(CLI::App* command, RankOptions& ranks);
// Model, machine and context.
void AddRun(CLI::App* command, RunOptions& run);
// How requests are served: caches, batches, drafts, the trace.
void AddEngine(CLI::App* command, ServingOptions& engine);
void AddAllSampling(CLI::App* command, SamplingOptions& sampling);
// Whether chats that do not say reason.
void AddThinking(CLI::App* command, bool& thinking);
void AddProfile(CLI::App* command, std::string& profile);

}  // namespace fathom::cli
