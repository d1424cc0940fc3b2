// The command line of `fathom batch`.
#ifndef FATHOM_CLI_BATCH_OPTIONS_H_
#define FATHOM_CLI_BATCH_OPTIONS_H_

#include "cli/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to `app`. `options` holds the defaults and must outlive the parsing.
void AddBatch(CLI::App& app, BatchCommand& options);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_BATCH_OPTIONS_H_
