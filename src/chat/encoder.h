// The V4 chat encoding: messages and tools -> the text of the prompt. There is no template in the
// checkpoints; the format is the program encoding_dsv4.py. docs/spec/encoding.md sections 4 to 6
// and 8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "chat/chat.h"
#include "chat/profile.h"

namespace fathom {

// A stretch of the prompt and where it comes from. Special tokens may be recognised only in what
// the format itself wrote; a client that writes <｜User｜> into a message must not open a turn with
// it. Apart from that the stretches are one text: merges of the tokenizer may cross their borders.
struct PromptSpan {
  std::string text{};           // UTF-8, not empty; but for tokens
  bool trusted = false;         // true: written by the format; false: by the client
  std::vector<Token> tokens{};  // not empty: these, in place of text (Message::written)
};

struct EncodedPrompt {
  std::string Text() const;  // what spans of tokens say is not in it

  std::vector<PromptSpan> spans{};  // neighbours that are text differ in `trusted`
  // Whether the prompt ends inside the reasoning, so that the answer begins there.
  bool ends_in_reasoning = false;
};

// Errors (kInvalidArgument): an effort that the profile does not know, an unknown task, an empty
// developer message, tools or a response format that are not JSON.
Result<EncodedPrompt> EncodeChat(ChatRequest request, const EncodeOptions& options,
                                 const PromptProfile& profile);

// The calls of an assistant turn as the model writes them, without the two newlines before them.
std::string RenderToolCalls(const std::vector<ToolCall>& calls);

// How a block whose first call is of this tool begins, with the two newlines before it, up to where
// the parameters stand.
EncodedPrompt RenderCallOpening(std::string_view name);

}  // namespace fathom
