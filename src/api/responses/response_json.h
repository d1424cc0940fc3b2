// What the responses of OpenAI's chat completions and completions have in common.
// docs/spec/serving.md section 6.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/common/answer_collector.h"
#include "api/common/api_answer.h"

namespace fathom {

// A response, or a chunk of one, with these choices; without usage.
nlohmann::ordered_json ResponseJson(std::string_view object, const ResponseHead& head,
                                    nlohmann::ordered_json choices);

// What a chunk of a stream says of the usage, if the call asked for it: null, or what it is so far
// where each chunk is to tell.
void AddChunkUsage(const ApiAnswer& answer, nlohmann::ordered_json* chunk);

nlohmann::ordered_json UsageJson(const Usage& usage);

// What ended the choice: a stop string, a stop token of the request, or neither.
nlohmann::ordered_json StopReasonJson(const CollectedAnswer& answer);

// The end of a stream: the usage, if the call asked for it, and the mark of the end.
void AppendStreamEnd(std::string_view object, const ApiAnswer& answer, std::string* out);

}  // namespace fathom
