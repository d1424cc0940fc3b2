// From messages to tokens: what the encoder and the tokenizer do not know of each other.
#ifndef FATHOM_CLI_CHAT_PROMPT_H_
#define FATHOM_CLI_CHAT_PROMPT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "cli/log.h"
#include "prompt/encoder.h"
#include "prompt/profile.h"
#include "tokenizer/tokenizer.h"

namespace fathom::cli {

// The profile of that name; if it is empty, what the model's directory says, and a line in the log
// if that is a guess.
Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log);

// The tokens of a prompt; text of a client stays text.
Result<std::vector<Token>> EncodeSpans(const Tokenizer& tokenizer, const EncodedPrompt& prompt);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_CHAT_PROMPT_H_
