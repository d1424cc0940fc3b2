// Reads sampling fields under the names of other servers.
#pragma once

#include <string_view>

#include "engine/request.h"
#include "json/field_reader.h"

namespace fathom::api {

// The names on all APIs for the most tokens of an answer, in the order of growing precedence.
inline constexpr std::string_view kLengthNames[] = {"n_predict", "num_predict", "max_new_tokens",
                                                    "max_tokens", "max_completion_tokens"};

// Reads repeat_penalty (llama.cpp, Ollama) if repetition_penalty is absent.
void ReadSamplingAliases(FieldReader& reader, SamplingParameters* sampling);

// Fails for fields that other servers know and this one does not have, unless their value demands
// nothing: if they were ignored, the client would get a different answer than it asked for.
void RefuseOtherSampling(FieldReader& reader, const SamplingParameters& sampling);

}  // namespace fathom::api
