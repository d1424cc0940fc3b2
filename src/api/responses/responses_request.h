// The body of POST /v1/responses. docs/spec/serving.md section 10.
#pragma once

#include <string_view>

#include "api/common/chat_call.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_context.h"
#include "base/result.h"

namespace fathom {

struct ResponsesRequest {
  ChatCompletionRequest chat;
  ResponsesContext context;
};

// Errors name the field: kInvalidArgument if it is wrong or refers to an item that is not in
// `store` (which may be null), kUnsupported if this build cannot do it. Unknown fields are ignored.
Result<ResponsesRequest> ParseResponsesRequest(std::string_view body, const RequestLimits& limits,
                                               const RequestDefaults& defaults,
                                               ResponseStore* store);

}  // namespace fathom
