#include <algorithm>
#include <array>

#include "api/anthropic/messages_api.h"
#include "api/common/api.h"
#include "api/ollama/ollama_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"

namespace fathom::api {

std::span<const Api* const> Apis() {
  static constexpr std::array kApis = {
      &kChatCompletions,  // POST /v1/chat/completions
      &kCompletions,      // POST /v1/completions
      &kResponses,        // POST /v1/responses
      &kMessages,         // POST /v1/messages
      &kOllamaChat,       // POST /api/chat
      &kOllamaGenerate,   // POST /api/generate
  };
  return kApis;
}

const Api* FindApi(std::string_view path) {
  for (const Api* api : Apis()) {
    if (std::find(api->paths.begin(), api->paths.end(), path) != api->paths.end()) return api;
  }
  return nullptr;
}

ApiReply WholeReply(const ApiAnswer& answer) {
  const Api& api = *answer.call().api;
  const std::optional<ApiError> error = answer.error();
  if (error) return api.error(*error);
  return {.status = 200, .body = api.make_format()->Whole(answer)};
}

}  // namespace fathom::api
