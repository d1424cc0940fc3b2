// Encodes prompts, and lists the tokens of the chat format that users must not see
// (docs/spec/encoding.md section 7).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "chat/encoder.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace fathom::api {

// Returns the tokens of a prompt. A client's text never becomes special tokens, and replayed turns
// keep their tokens.
Result<std::vector<Token>> EncodePrompt(const Tokenizer& tokenizer, const EncodedPrompt& prompt,
                                        const StopFunction& stop = {});

// Returns a lower bound of the tokens of the prompt without encoding it, which takes much time and
// memory for a long text.
std::int64_t LeastTokens(const Tokenizer& tokenizer, const EncodedPrompt& prompt);

// Returns the tokens that begin a turn and so end an answer, as far as the model has them.
std::vector<Token> TurnTokens(const Tokenizer& tokenizer);

// Adds the sampling parameters that every chat needs: turn tokens end the answer unless ignore_eos
// is set, and control tokens have no text. <think>, </think> and the token of calls keep their
// text, by which answers are parsed.
void AddChatTokens(const Tokenizer& tokenizer, SamplingParameters* sampling);

}  // namespace fathom::api
