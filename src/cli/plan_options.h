// The command line of `fathom plan`.
#ifndef FATHOM_CLI_PLAN_OPTIONS_H_
#define FATHOM_CLI_PLAN_OPTIONS_H_

#include "cli/options.h"

namespace CLI {
class App;
}

namespace fathom::cli {

// `options` holds the defaults and must outlive the parsing.
void AddPlan(CLI::App& app, PlanCommand& options);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_PLAN_OPTIONS_H_
