// The options of each command: declared once, for parsing and for --help.
#pragma once

#include <string>

#include "cli/options/options.h"
#include "cli/options/parser.h"

namespace fathom::cli {

// The variables that the parser fills; only the named command's are valid.
struct ParsedCommands {
  std::string log_level;  // empty: the default of the command
  LogFormat log_format = LogFormat::kText;
  GenerateCommand generate;
  ChatCommand chat;
  ServeCommand serve;
  BatchCommand batch;
  InspectCommand inspect;
  TokenizeCommand tokenize;
  EncodeCommand encode;
  ParseCommand parse;
  LogitsCommand logits;
  MakeSliceCommand make_slice;
  BenchCommand bench;
  BenchServeCommand bench_serve;
  LaunchCommand launch;
  PlanCommand plan;
  DevicesCommand devices;
  ConstrainCommand constrain;
};

// Adds all commands and the options of the program. `commands` holds the defaults and must outlive
// the parsing.
void AddCommands(Command root, ParsedCommands& commands);

// Add single commands, as AddCommands does.
void AddBatch(Command& root, BatchCommand& options);
void AddServe(Command& root, ServeCommand& options);
void AddPlan(Command& root, PlanCommand& options);
// Adds `serve` to `bench`, excluding the options of `bench` itself.
void AddBenchServe(Command& bench, BenchServeCommand& options);

}  // namespace fathom::cli
