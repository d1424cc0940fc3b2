// Options that several commands share, so that they are declared and checked alike everywhere.
#pragma once

#include <filesystem>
#include <string>

#include "cli/options/options.h"
#include "cli/options/parser.h"

namespace fathom::cli {

// The headings in --help of options of more than one command; "" is that of the command itself.
inline constexpr const char* kOwnGroup = "Options";
inline constexpr const char* kModelGroup = "Model";
inline constexpr const char* kSamplingGroup = "Sampling";

// The values hold the defaults and must outlive the parsing.
void AddModel(Command& command, std::filesystem::path& model);
void AddThreads(Command& command, int& n_threads);
// Threads, processors, instruction set, memory of the weights.
void AddMachine(Command& command, RunOptions& run);
// How several ranks share the model.
void AddRanks(Command& command, RankOptions& ranks);
// Model, machine and context.
void AddRun(Command& command, RunOptions& run);
// How requests are served: caches, batches, drafts, the trace.
void AddServing(Command& command, ServingOptions& serving);
void AddSampling(Command& command, SamplingOptions& sampling);
// Whether chats reason that do not say.
void AddThinking(Command& command, bool& thinking);
void AddProfile(Command& command, std::string& profile);

}  // namespace fathom::cli
