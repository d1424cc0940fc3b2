// The command line of `fathom serve`.
#pragma once

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to `app`. `options` holds the defaults and must outlive the parsing.
void AddServe(CLI::App& app, ServeCommand& options);

}  // namespace fathom::cli
