// The command line of `fathom serve`.
#ifndef FATHOM_CLI_SERVE_OPTIONS_H_
#define FATHOM_CLI_SERVE_OPTIONS_H_

#include "cli/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to `app`. `options` holds the defaults and must outlive the parsing.
void AddServe(CLI::App& app, ServeCommand& options);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_SERVE_OPTIONS_H_
