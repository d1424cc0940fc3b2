// Errors in the format of Anthropic's clients. docs/spec/serving.md section 7.
#pragma once

#include "api/common/api_error.h"
#include "json/json_value.h"

namespace fathom {

// Returns the HTTP status: error.status, but 529 for an overloaded server.
int MessagesStatus(const ApiError& error);

// Writes {"type": "error", "error": {"type": ..., "message": ...}, "request_id": ...}; the request
// id only if it is known. The type follows from the status. The message names the field, which has
// no place of its own; for a prompt that is too long it says "prompt is too long: X tokens > Y
// maximum", which Claude Code looks for.
JsonValue MessagesErrorJson(const ApiError& error);

}  // namespace fathom
