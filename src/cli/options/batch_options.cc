#include "cli/options/batch_options.h"

#include <CLI/CLI.hpp>

#include "cli/options/option_groups.h"

namespace fathom::cli {

void AddBatch(CLI::App& app, BatchCommand& options) {
  CLI::App* command = app.add_subcommand("batch", "Answer a file of OpenAI requests, many at once");
  command
      ->add_option("input", options.input,
                   "A file of requests, one JSON object a line, or - for standard input")
      ->type_name("IN")
      ->required();
  command
      ->add_option("output", options.output,
                   "The file of answers, or - for standard output; a run that was stopped goes on "
                   "from what is in it")
      ->type_name("OUT")
      ->required();
  AddThinking(command, options.thinking);
  AddProfile(command, options.profile);
  AddRun(command, options.run);
  AddEngine(command, options.engine);
  AddAllSampling(command, options.sampling);
  command->footer(
      "Sampling options hold for requests that do not say otherwise. Ctrl-C stops; the same "
      "command\n"
      "goes on. docs/batch.md has the format.\n"
      "Examples:\n"
      "  fathom batch requests.jsonl answers.jsonl\n"
      "  fathom batch --model DIR --max-sequences 32 --thinking off requests.jsonl answers.jsonl\n"
      "  fathom batch - - < requests.jsonl > answers.jsonl");
}

}  // namespace fathom::cli
