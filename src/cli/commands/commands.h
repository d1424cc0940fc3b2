// The commands of the program. Each does all its work and returns an error, or prints its result to
// standard output. A command checks all it can before it writes anything.
#pragma once

#include "base/result.h"
#include "cli/options/options.h"
#include "cli/terminal/log.h"
#include "runtime/rank_process.h"

namespace fathom::cli {

// With several ranks, these commands run on the first rank (the others run FollowEngine).
Status RunCommand(const GenerateCommand& command, RankProcess& ranks, Log& log);
Status RunCommand(const ChatCommand& command, RankProcess& ranks, Log& log);
Status RunCommand(const ServeCommand& command, RankProcess& ranks, Log& log);
Status RunCommand(const BatchCommand& command, RankProcess& ranks, Log& log);
// These commands run on all ranks.
Status RunCommand(const LogitsCommand& command, RankProcess& ranks, Log& log);
Status RunCommand(const BenchCommand& command, RankProcess& ranks, Log& log);

Status RunCommand(const ConstrainCommand& command, Log& log);
Status RunCommand(const DevicesCommand& command, Log& log);
Status RunCommand(const InspectCommand& command, Log& log);
Status RunCommand(const TokenizeCommand& command, Log& log);
Status RunCommand(const EncodeCommand& command, Log& log);
Status RunCommand(const ParseCommand& command, Log& log);
Status RunCommand(const MakeSliceCommand& command, Log& log);
Status RunCommand(const LaunchCommand& command, Log& log);
Status RunCommand(const PlanCommand& command, Log& log);
Status RunCommand(const BenchServeCommand& command, Log& log);

}  // namespace fathom::cli
