// Logs answered requests.
#pragma once

#include "cli/terminal/log.h"
#include "server/served_request.h"

namespace fathom::cli {

// One line: who, what, how long, how many tokens; in JSON each as a field of its own. Text of
// requests and answers is there only if the record holds it. Any thread.
void LogRequest(const ServedRequest& record, Log& log);

}  // namespace fathom::cli
