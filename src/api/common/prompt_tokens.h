// Encodes a prompt into tokens: joins the chat encoder and the tokenizer.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "chat/encoder.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Returns the tokens of a prompt. Text of a client never becomes special tokens, and replayed turns
// keep their tokens.
Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt);

}  // namespace fathom
