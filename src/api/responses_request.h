// The body of POST /v1/responses. spec/serving.md section 10.
#ifndef FATHOM_API_RESPONSES_REQUEST_H_
#define FATHOM_API_RESPONSES_REQUEST_H_

#include <string_view>

#include "api/chat_completion_request.h"
#include "api/generation_fields.h"
#include "api/response_store.h"
#include "api/responses_context.h"
#include "base/result.h"

namespace fathom {

struct ResponsesRequest {
  ChatCompletionRequest chat;
  ResponsesContext context;
};

// Errors name the field: kInvalidArgument if it is wrong (or names what is not in `store`, which
// may be null), kUnsupported if this build cannot do it. Unknown fields are ignored.
Result<ResponsesRequest> ParseResponsesRequest(std::string_view body, const RequestLimits& limits,
                                               const RequestDefaults& defaults,
                                               ResponseStore* store);

}  // namespace fathom

#endif  // FATHOM_API_RESPONSES_REQUEST_H_
