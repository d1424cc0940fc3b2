// Converts the items of a conversation of the Responses API to messages.
#pragma once

#include <string_view>

#include "api/common/generation_fields.h"
#include "api/responses/responses_request.h"
#include "chat/media_parts.h"
#include "chat/offered_tools.h"
#include "json/field_reader.h"

namespace fathom::api {

struct ItemRules {
  MediaPolicy media = MediaPolicy::kEarlier;
  RequestLimits limits;
};

// Reads "previous_response_id" and "input" of the body that `reader` reads; `body` is its text.
// Sets the messages of the chat and, if the response is to be stored, the items of the context.
// Items that define tools add them to `tools` and, under the client's names, to the context. Errors
// go to the reader.
void ReadResponsesInput(FieldReader& reader, std::string_view body, ResponseStore* store,
                        const ItemRules& rules, OfferedTools* tools, ResponsesRequest* request);

}  // namespace fathom::api
