// Errors in the form Anthropic's clients know. docs/spec/serving.md section 7.
#pragma once

#include "api/common/api_error.h"
#include "json/json_value.h"

namespace fathom {

// Of HTTP: as error.status, but 529 where the server is overloaded.
int MessagesStatus(const ApiError& error);

// {"type": "error", "error": {"type": ..., "message": ...}, "request_id": ...}, the last if it is
// known. The type follows from the status. The message names the field, for which there is no other
// place; of a prompt that is too long it says "prompt is too long: X tokens > Y maximum", which
// Claude Code looks for.
JsonValue MessagesErrorJson(const ApiError& error);

}  // namespace fathom
