// What each command can be told: declared once, for parsing and for --help.
#pragma once

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// What the parser writes to while it reads; only the command that was named counts.
struct ParsedCommands {
  std::string log_level;  // empty: what the command wants
  std::string log_format = "text";
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
};

// Adds all commands and the options of the program to `app`. `commands` holds the defaults and must
// outlive the parsing.
void AddCommands(CLI::App& app, ParsedCommands& commands);

}  // namespace fathom::cli
