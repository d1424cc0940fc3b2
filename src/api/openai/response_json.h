// JSON shared by the responses of OpenAI's chat completions and completions. docs/spec/serving.md
// section 6.
#pragma once

#include <string>
#include <string_view>

#include "api/common/answer_collector.h"
#include "api/common/api_answer.h"
#include "json/json_value.h"

namespace fathom {

// A response, or a chunk of one, with these choices; without usage.
JsonValue ResponseJson(std::string_view object, const ResponseHead& head, JsonValue choices);

// What a chunk of a stream says of the usage, if the call asked for it: null, or what it is so far
// where each chunk is to tell.
void AddChunkUsage(const ApiAnswer& answer, JsonValue* chunk);

JsonValue UsageJson(const Usage& usage);

// What ended the choice: a stop string, a stop token of the request, or neither.
JsonValue StopReasonJson(const CollectedAnswer& answer);

// The end of a stream: the usage, if the call asked for it, and the mark of the end.
void AppendStreamEnd(std::string_view object, const ApiAnswer& answer, std::string* out);

}  // namespace fathom
