// Converts the items of a conversation of the Responses API to messages.
#pragma once

#include <string_view>

#include "api/responses/responses_request.h"
#include "json/field_reader.h"

namespace fathom {

// Reads "previous_response_id" and "input" of the body that `reader` reads; `body` is its text.
// Sets the messages of the chat and, if the response is to be stored, the items of the context.
// Errors go to the reader.
void ReadResponsesInput(FieldReader& reader, std::string_view body, ResponseStore* store,
                        ResponsesRequest* request);

}  // namespace fathom
