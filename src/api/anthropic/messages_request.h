// The body of POST /v1/messages, Anthropic's API. docs/spec/serving.md section 9.
#pragma once

#include <string_view>

#include "api/common/chat_call.h"
#include "base/result.h"

namespace fathom {

// Parses the body, also that of POST /v1/messages/count_tokens. max_tokens may be absent; the
// temperature may go to 2; the engine's own sampling fields count beside Anthropic's. Unknown and
// informational keys (metadata, cache_control, ...) are ignored. Tools that Anthropic would run are
// dropped.
//
// Errors name the field: kInvalidArgument if it is wrong, kUnsupported if this build cannot do it.
Result<ChatCompletionRequest> ParseMessagesRequest(std::string_view body,
                                                   const RequestLimits& limits,
                                                   const RequestDefaults& defaults);

}  // namespace fathom
