// The tools of a request to Anthropic's API. docs/spec/serving.md section 9.
#pragma once

#include <string_view>

#include "api/common/chat_call.h"
#include "api/common/generation_fields.h"
#include "json/field_reader.h"

namespace fathom {

// Reads "tools" and "tool_choice" of the body that `reader` reads; `body` is its text. Errors go to
// the reader.
//
// The tools that Anthropic has defined and the client runs (bash, text editor, memory, computer)
// become functions with their published parameters. Tools that Anthropic runs are refused, but for
// the search of the web, which is dropped beside other tools: agents always offer it.
void ReadMessagesTools(FieldReader& reader, const RequestLimits& limits, std::string_view body,
                       ChatCompletionRequest* request);

}  // namespace fathom
