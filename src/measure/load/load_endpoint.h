// LoadEndpoint: the API of the server that receives the requests.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"

namespace fathom::load {

// /v1/completions accepts token ids: prompts have exactly the drawn number of tokens. The other
// endpoints (/v1/chat/completions, /v1/responses, /v1/messages) accept words.
enum class LoadEndpoint { kCompletions, kChat, kResponses, kMessages };

// Indexed by LoadEndpoint.
inline constexpr std::array<const char*, 4> kEndpointNames = {"completions", "chat", "responses",
                                                              "messages"};

constexpr std::string_view Name(LoadEndpoint endpoint) {
  return kEndpointNames[static_cast<std::size_t>(endpoint)];
}

// Errors (kInvalidArgument): the name is unknown.
inline Result<LoadEndpoint> ParseEndpoint(std::string_view name) {
  for (std::size_t i = 0; i < kEndpointNames.size(); ++i) {
    if (name == kEndpointNames[i]) return static_cast<LoadEndpoint>(i);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "expected completions, chat, responses or messages, found '{}'", name);
}

}  // namespace fathom::load
