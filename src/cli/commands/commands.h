// The commands of the program. Each does all its work and reports an error, or prints its result to
// standard output; nothing is written before what can be checked has been checked.
#pragma once

#include "base/result.h"
#include "cli/options/options.h"
#include "cli/terminal/log.h"
#include "runtime/rank_process.h"

namespace fathom::cli {

// With several ranks, these commands run on the first (FollowEngine on the others).
Status RunGenerate(const GenerateCommand& command, RankProcess& ranks, Log& log);
Status RunChat(const ChatCommand& command, RankProcess& ranks, Log& log);
Status RunServe(const ServeCommand& command, RankProcess& ranks, Log& log);
Status RunBatch(const BatchCommand& command, RankProcess& ranks, Log& log);
// These on all.
Status RunLogits(const LogitsCommand& command, RankProcess& ranks, Log& log);
Status RunBench(const BenchCommand& command, RankProcess& ranks, Log& log);

Status RunInspect(const InspectCommand& command, Log& log);
Status RunTokenize(const TokenizeCommand& command, Log& log);
Status RunEncode(const EncodeCommand& command, Log& log);
Status RunParse(const ParseCommand& command, Log& log);
Status RunMakeSlice(const MakeSliceCommand& command, Log& log);
Status RunLaunch(const LaunchCommand& command, Log& log);
Status RunPlan(const PlanCommand& command, Log& log);
Status RunBenchServe(const BenchServeCommand& command, Log& log);

}  // namespace fathom::cli
