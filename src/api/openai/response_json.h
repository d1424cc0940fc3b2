// JSON shared by the responses of chat completions and completions. docs/spec/serving.md section 6.
#pragma once

#include <string>
#include <string_view>

#include "api/common/answer_collector.h"
#include "api/common/api_answer.h"
#include "json/json_value.h"

namespace fathom {

// Returns a response, or a chunk of one, with these choices and without usage.
JsonValue ResponseJson(std::string_view object, const ResponseHead& head, JsonValue choices);

// Adds the usage to a chunk, if the call asked for it: null, or the usage so far where every chunk
// has it.
void AddChunkUsage(const ApiAnswer& answer, JsonValue* chunk);

JsonValue UsageJson(const Usage& usage);

// Returns what ended the choice: a stop string, a stop token of the request, or null.
JsonValue StopReasonJson(const CollectedAnswer& answer);

// Appends the end of a stream: the usage, if the call asked for it, and the end mark.
void AppendStreamEnd(std::string_view object, const ApiAnswer& answer, std::string* out);

}  // namespace fathom
