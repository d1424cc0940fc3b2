// The input of a tool call for clients that need an object.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "chat/answer.h"
#include "chat/tool_schemas.h"

namespace fathom {

// Returns the arguments of a call as a JSON object on one line, with the digits that the model
// wrote. For a call that a limit cut, returns the finished parameters; nullopt if a strict tool
// requires more parameters.
std::optional<std::string> CallInput(const Answer& answer, std::size_t call,
                                     const ToolSchemas& tools);

}  // namespace fathom
