// The command line of `fathom bench serve`.
#ifndef FATHOM_CLI_BENCH_SERVE_OPTIONS_H_
#define FATHOM_CLI_BENCH_SERVE_OPTIONS_H_

#include "cli/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// Adds the command to that of `bench`, whose own options it excludes. `options` holds the defaults
// and must outlive the parsing.
void AddBenchServe(CLI::App& bench, BenchServeCommand& options);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_BENCH_SERVE_OPTIONS_H_
