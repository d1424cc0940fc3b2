// The command line of `fathom batch`.
#pragma once

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to `app`. `options` holds the defaults and must outlive the parsing.
void AddBatch(CLI::App& app, BatchCommand& options);

}  // namespace fathom::cli
