// The command line of `fathom bench serve`.
#pragma once

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to that of `bench`, whose own options it excludes. `options` holds the defaults
// and must outlive the parsing.
void AddBenchServe(CLI::App& bench, BenchServeCommand& options);

}  // namespace fathom::cli
