// Writes a response of the Responses API and its items as JSON. They depend only on the answer,
// including their ids, so that a response is equal whole, streamed and stored. docs/spec/serving.md
// section 10.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api_answer.h"
#include "api/common/api_error.h"
#include "api/openai/logprobs_json.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_request.h"
#include "json/json_value.h"

namespace fathom::api {

// All functions take the answer to a call of kResponses, which has one choice.

// Returns the parts of the request that the answer needs; nullptr for a call of another API.
const ResponsesContext* ResponsesContextIn(const ApiAnswer& answer);

// One item of the output: the reasoning, the message or a call, in this order.
struct OutputItem {
  enum class Kind { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::size_t index = 0;  // in the output
  std::size_t call = 0;   // index of the call
};

// Returns the items that have begun.
std::vector<OutputItem> OutputItems(const ApiAnswer& answer);

// Returns the kind of the tool that a call of the answer names.
ToolKind KindOfCall(const ApiAnswer& answer, std::size_t call);

// Returns a prefix of the item's type (rs_, msg_, fc_, ...) with a text that is unique to the
// response and the item.
std::string ItemId(const ApiAnswer& answer, const OutputItem& item);
// Returns {"type": "output_text", ...} with the text; a finished part has log probabilities too.
JsonValue TextPart(std::string_view text, JsonValue logprobs);
// Returns the log probabilities of the text that `told` has not written yet, or an empty list if
// none were requested.
JsonValue TextLogprobs(const ApiAnswer& answer, ChatLogprobs* told);

// Returns an item, without content if it is "in_progress", otherwise with all its content.
// `status`: "in_progress", "completed", "incomplete".
JsonValue ItemJson(const ApiAnswer& answer, const OutputItem& item, std::string_view status);
// Returns the status of an item of a finished answer: the last item of an answer that was cut off
// is incomplete.
std::string_view FinishedStatus(const ApiAnswer& answer, const OutputItem& item);

// Returns whether the answer has finished without an error and was not cut off by a limit.
bool IsComplete(const ApiAnswer& answer);

// Return the response before the first item, after the last, and after an error.
JsonValue StartedResponse(const ApiAnswer& answer);
JsonValue FinishedResponse(const ApiAnswer& answer);
JsonValue FailedResponse(const ApiAnswer& answer, const ApiError& error);

// Returns an item of an input as OpenAI shows it: with its id and type, and the content of a
// message as parts.
JsonValue InputItemJson(const ResponseItem& item);

// Stores the response to a call of any API, if the call belongs to the Responses API, its client
// allows it, and it has ended without an error. Call once the answer is complete.
void StoreResponse(const ApiAnswer& answer, ResponseStore& store);

}  // namespace fathom::api
