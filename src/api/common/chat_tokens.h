// Tokens of the chat format that a model may write and nobody should read. docs/spec/encoding.md
// section 7.
#pragma once

#include <vector>

#include "base/tensor.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom {

// Those that begin somebody's turn, where a chat's answer is over. A model without such a token has
// none here.
std::vector<Token> TurnTokens(const Tokenizer& tokenizer);

// What the sampling of every chat needs besides what its request says: turn tokens end the answer,
// unless ignore_eos says that nothing of the kind does, and no control token has a text. <think>,
// </think> and the mark of calls keep theirs, by which answers are read.
void AddChatTokens(const Tokenizer& tokenizer, SamplingParameters* sampling);

}  // namespace fathom
