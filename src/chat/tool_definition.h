// The definition of a tool as prompts show it. docs/spec/encoding.md section 6.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

// Returns {"name": ..., "description": ..., "parameters": ...} in the client's spelling, with ""
// and
// {} for what is absent or null. `function_json`: ToolSpec::function_json. Error: it is no object.
Result<std::string> ShownFunction(std::string_view function_json);

// Returns the same as the prompt spells it, in Python's JSON.
Result<std::string> ToolDefinition(std::string_view function_json);

}  // namespace fathom
