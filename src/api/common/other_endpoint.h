// Bodies that were sent to the path of another API.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/field_reader.h"

namespace fathom {

// The APIs whose paths a client knows. Both have messages and prompts, at paths of their own.
enum class PathFamily { kOpenAi, kOllama };

// Fails with the path that the body is for, if the body lacks `prompt_field`, where this API has
// its prompt, and has that of another one: "input: this is a body for POST /v1/responses; ...".
void RefuseOtherEndpoint(FieldReader& reader, std::string_view prompt_field,
                         PathFamily family = PathFamily::kOpenAi);

// Returns the error of a field that only bodies for `path` have: "tools[0].input_schema: a tool
// with this field is for POST /v1/messages; this path reads function.parameters".
Error OtherEndpointError(const std::string& field, std::string_view what, std::string_view path,
                         std::string_view reads);

}  // namespace fathom
