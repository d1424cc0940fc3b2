// Bodies that were sent to the path of another API.
#pragma once

#include <string_view>

#include "json/field_reader.h"

namespace fathom {

// Fails with the path that the body is for, if the body lacks `prompt_field`, where this API has
// its prompt, and has that of another one: "input: this is a body for POST /v1/responses; ...".
void RefuseOtherEndpoint(FieldReader& reader, std::string_view prompt_field);

}  // namespace fathom
