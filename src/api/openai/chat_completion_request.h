// The body of POST /v1/chat/completions. docs/spec/serving.md sections 5 and 8,
// docs/spec/encoding.md 5.
#pragma once

#include <string_view>

#include "api/common/chat_call.h"
#include "base/result.h"

namespace fathom {

// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseChatCompletionRequest(std::string_view body,
                                                         const RequestLimits& limits,
                                                         const RequestDefaults& defaults);

}  // namespace fathom
