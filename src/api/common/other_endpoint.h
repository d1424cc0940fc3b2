// Recognizes bodies that were sent to the path of another API.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/field_reader.h"

namespace fathom::api {

// The APIs whose paths a client knows. Both have messages and prompts, at different paths.
enum class PathFamily { kOpenAi, kOllama };

// Fails with the path for which the body is if the body lacks `prompt_field`, this API's field for
// the prompt, and has another API's: "input: this is a body for POST /v1/responses; ...".
void RefuseOtherEndpoint(FieldReader& reader, std::string_view prompt_field,
                         PathFamily family = PathFamily::kOpenAi);

// Returns the error for a field that only bodies for `path` have: "tools[0].input_schema: a tool
// with this field is for POST /v1/messages; this path reads function.parameters".
Error OtherEndpointError(const std::string& field, std::string_view what, std::string_view path,
                         std::string_view reads);

}  // namespace fathom::api
