// The lengths and the sampling of DeepSeek's hosted API, for servers that should answer like it
// (RequestDefaults::like_hosted). docs/spec/encoding.md section 12.
#pragma once

#include <cstdint>

#include "chat/chat.h"
#include "chat/profile.h"
#include "engine/request.h"

namespace fathom {

// The properties of a chat on which these defaults depend.
struct HostedChat {
  bool thinks = false;
  bool thinks_most = false;  // the effort is the highest
  bool has_tools = false;
  std::int64_t room = 0;  // tokens of the context that the prompt leaves free
};

// Returns the chat with these options. Efforts that the profile does not have count as no thinking.
HostedChat ToHostedChat(const EncodeOptions& options, const PromptProfile& profile, bool has_tools,
                        std::int64_t room);

// Sets the default limit of the answer: 8,192 tokens, 65,536 with thinking, and 131,072 with
// thinking of the highest effort, but not more than there is room for. With thinking, the
// temperature is 1 and top_p is 1, or 0.95 with tools, whatever the request asks for.
void ApplyHostedDefaults(const HostedChat& chat, SamplingParameters* sampling);

}  // namespace fathom
