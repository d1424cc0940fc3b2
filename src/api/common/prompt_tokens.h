// From prompts to tokens: what the encoder and the tokenizer do not know of each other.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "chat/encoder.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// The tokens of a prompt; text of a client stays text, and turns that the model wrote stay its
// tokens.
Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt);

}  // namespace fathom
