// Writes the definition of a tool as prompts show it. docs/spec/encoding.md section 6.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

// Returns {"name": ..., "description": ..., "parameters": ...} in the client's spelling; an absent
// or null description is "", and absent or null parameters are {}. `function_json`:
// ToolSpec::function_json. Error: it is not an object.
Result<std::string> ShownFunction(std::string_view function_json);

// Returns the same definition in the prompt's spelling, Python's JSON.
Result<std::string> ToolDefinition(std::string_view function_json);

}  // namespace fathom
