// The descriptor of Anthropic's API. docs/spec/serving.md section 9.
#pragma once

#include <cstdint>

#include "api/common/api.h"

namespace fathom::api {

extern const Api kMessages;

// Returns the length in tokens of the prompt for a body of POST /v1/messages; the prompt may be
// longer than limits.max_context.
ApiResult<std::int64_t> CountMessageTokens(const ApiBody& body, const ApiModel& model);

}  // namespace fathom::api
