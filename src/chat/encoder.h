// EncodeChat: converts messages and tools to the text of the prompt in the V4 chat encoding. The
// checkpoints have no template; the format is defined by the program encoding_dsv4.py.
// docs/spec/encoding.md sections 4 to 6 and 8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "chat/chat.h"
#include "chat/literals.h"
#include "chat/profile.h"

namespace fathom::chat {

// A part of the prompt and its origin. Special tokens are recognized only in text of the format
// itself: a client that writes <｜User｜> into a message must not open a turn. Apart from that, the
// parts are one text: merges of the tokenizer may cross their borders.
struct PromptSpan {
  std::string text{};           // UTF-8; not empty unless there are tokens
  bool trusted = false;         // true: written by the format; false: by the client
  std::vector<Token> tokens{};  // not empty: these tokens instead of text (Message::written)
};

// The part of the answer at the end of the prompt.
struct AnswerStart {
  bool in_reasoning = false;  // the prompt ends inside the reasoning, where the answer then begins
  // The content of an open assistant turn, and whether calls follow it.
  std::string prefill{};
  bool has_calls = false;
};

struct EncodedPrompt {
  std::string Text() const;  // omits the spans that are tokens

  std::vector<PromptSpan> spans{};  // neighbouring text spans differ in `trusted`
  AnswerStart start{};
};

// Errors (kInvalidArgument): an effort that the profile does not have, an unknown task, an empty
// developer message, tools or a response format that are not JSON.
Result<EncodedPrompt> EncodeChat(ChatRequest request, const EncodeOptions& options,
                                 const PromptProfile& profile);

// Returns the task with that name, or nullptr.
const TaskToken* FindTask(std::string_view task);
// Returns the names of all tasks, for messages.
std::string TaskNames();

}  // namespace fathom::chat
