// LoadEndpoint: which API of the server is asked.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"

namespace fathom::load {

// /v1/completions takes token ids: prompts have exactly as many tokens as were drawn. The others
// (/v1/chat/completions, /v1/responses, /v1/messages) take words.
enum class LoadEndpoint { kCompletions, kChat, kResponses, kMessages };

// By the number of the endpoint.
inline constexpr std::array<const char*, 4> kEndpointNames = {"completions", "chat", "responses",
                                                              "messages"};

constexpr std::string_view NameOf(LoadEndpoint endpoint) {
  return kEndpointNames[static_cast<std::size_t>(endpoint)];
}

// Errors (kInvalidArgument): none has that name.
inline Result<LoadEndpoint> ParseEndpoint(std::string_view name) {
  for (std::size_t i = 0; i < kEndpointNames.size(); ++i) {
    if (name == kEndpointNames[i]) return static_cast<LoadEndpoint>(i);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "expected completions, chat, responses or messages, found '{}'", name);
}

}  // namespace fathom::load
