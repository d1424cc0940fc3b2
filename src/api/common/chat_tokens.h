// Tokens of the chat format that a model may write and a client should not see.
// docs/spec/encoding.md section 7.
#pragma once

#include <vector>

#include "base/tensor.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// The tokens that begin a turn and so end a chat's answer. A model without such a token has none
// here.
std::vector<Token> TurnTokens(const Tokenizer& tokenizer);

// Adds the sampling rules of every chat: turn tokens end the answer, unless ignore_eos is set, and
// control tokens have no text. <think>, </think> and the mark of calls keep their text, which the
// parser needs.
void AddChatTokens(const Tokenizer& tokenizer, SamplingParameters* sampling);

}  // namespace fathom
