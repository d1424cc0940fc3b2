// Converts a request to the form in which DeepSeek's own converter shows it to the model.
// docs/spec/encoding.md section 6.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/chat.h"

namespace fathom::chat {

// Changes a client's request before EncodeChat:
// * the messages, as ArrangeHistory does;
// * the tools of the request: {"name", "description", "parameters"} and no other key; a description
//   that is absent or null is "", and such parameters are {};
// * the response format of the request: only its schema, or a text that asks for a JSON object.
// Tools and response formats inside messages stay unchanged: this is the official encoder's own
// form. Linear in the size of the request.
void ShowAsConverter(ChatRequest* request);

// Returns the three keys of a tool in the prompt's spelling, Python's JSON; what is absent or null
// is
// "" or {}. `function_json`: ToolSpec::function_json. Error: it is not an object.
Result<std::string> ToolDefinition(std::string_view function_json);

}  // namespace fathom::chat
