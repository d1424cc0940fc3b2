// What the log says of a request that was answered.
#ifndef FATHOM_CLI_SERVE_LOG_H_
#define FATHOM_CLI_SERVE_LOG_H_

#include "cli/log.h"
#include "server/served_request.h"

namespace fathom::cli {

// One line: who, what, how long, how many tokens; in JSON each as a field of its own. Text of
// requests and answers is there only if the record holds it. Any thread.
void LogRequest(const ServedRequest& record, Log& log);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_SERVE_LOG_H_
