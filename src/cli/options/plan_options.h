// The command line of `fathom plan`.
#pragma once

#include "cli/options/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// `options` holds the defaults and must outlive the parsing.
void AddPlan(CLI::App& app, PlanCommand& options);

}  // namespace fathom::cli
