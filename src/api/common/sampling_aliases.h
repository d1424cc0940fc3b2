// Fields of sampling as other servers name them.
#pragma once

#include <string_view>

#include "engine/request.h"
#include "json/field_reader.h"

namespace fathom {

// The names of the limit of the answer's tokens on all APIs, of growing precedence.
inline constexpr std::string_view kLengthNames[] = {"n_predict", "num_predict", "max_new_tokens",
                                                    "max_tokens", "max_completion_tokens"};

// Reads repeat_penalty (llama.cpp, Ollama) where repetition_penalty is absent.
void ReadSamplingAliases(FieldReader& reader, SamplingParameters* sampling);

// Fails for fields that other servers know and this one does not have, unless their value asks for
// nothing: ignored, they would leave the client with another answer than it asked for.
void RefuseOtherSampling(FieldReader& reader, const SamplingParameters& sampling);

}  // namespace fathom
