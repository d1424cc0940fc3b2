// JSON shared by the responses of OpenAI's chat completions and completions. docs/spec/serving.md
// section 6.
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

// Adds the usage of a stream's chunk, if the call asked for it: null, or the usage so far if every
// chunk is to have it.
void AddChunkUsage(const ApiAnswer& answer, nlohmann::ordered_json* chunk);

nlohmann::ordered_json UsageJson(const Usage& usage);

// Returns what ended the choice: a stop string, a stop token of the request, or neither.
nlohmann::ordered_json StopReasonJson(const CollectedAnswer& answer);

// The end of a stream: the usage, if the call asked for it, and the mark of the end.
void AppendStreamEnd(std::string_view object, const ApiAnswer& answer, std::string* out);

}  // namespace fathom
