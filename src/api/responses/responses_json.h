// A response of the Responses API and its items as JSON. They depend on the answer alone, ids
// included, so that a response is the same whether it is sent whole, streamed or stored.
// docs/spec/serving.md section 10.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/api_answer.h"
#include "api/common/api_error.h"
#include "api/openai/logprobs_json.h"
#include "api/responses/response_store.h"
#include "api/responses/responses_context.h"
#include "json/json_value.h"

namespace fathom {

// All functions take the answer to a call of kResponses, which has one choice.

// What the answer needs of its request; nullptr: the call is one of another API.
const ResponsesContext* ContextOf(const ApiAnswer& answer);

// One item of the output, in the order of the output: the reasoning, the message, the calls.
struct OutputItem {
  enum class Kind { kReasoning, kMessage, kFunctionCall, kCustomCall };
  Kind kind = Kind::kMessage;
  std::size_t index = 0;  // in the output
  std::size_t call = 0;   // which of the calls, for the last two
};

// The items that have begun.
std::vector<OutputItem> OutputItems(const ApiAnswer& answer);

// Of a call of the answer.
OutputItem::Kind KindOfCall(const ApiAnswer& answer, std::size_t call);

// rs_, msg_, fc_ or ctc_ and what is unique to the response and the item.
std::string ItemId(const ApiAnswer& answer, const OutputItem& item);
// {"type": "output_text", ...} with that text; of a part that is done, the log probabilities too.
JsonValue TextPart(std::string_view text, JsonValue logprobs);
// Of the text so far, if they were asked for; else an empty list. With `told`, only those that it
// has not written yet.
JsonValue TextLogprobs(const ApiAnswer& answer);
JsonValue TextLogprobs(const ApiAnswer& answer, ChatLogprobs* told);

// An item of which nothing is told yet, and one with all there is. `status`: "completed",
// "incomplete".
JsonValue StartedItem(const ApiAnswer& answer, const OutputItem& item);
JsonValue FinishedItem(const ApiAnswer& answer, const OutputItem& item, std::string_view status);
// Of a finished answer. The last item of one that was cut off is incomplete.
std::string_view FinishedStatus(const ApiAnswer& answer, const OutputItem& item);

// Whether the answer is there in full, and not cut off by a limit.
bool IsComplete(const ApiAnswer& answer);

// The response: before the first item, after the last, and after an error.
JsonValue StartedResponse(const ApiAnswer& answer);
JsonValue FinishedResponse(const ApiAnswer& answer);
JsonValue FailedResponse(const ApiAnswer& answer, const ApiError& error);

// Keeps the response to a call of any endpoint, if it is one of the Responses API that the client
// did not forbid to store, and has ended without an error. Call once all of it has been added.
void StoreResponse(const ApiAnswer& answer, ResponseStore& store);

}  // namespace fathom
