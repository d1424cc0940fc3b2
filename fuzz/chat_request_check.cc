#include "fuzz/chat_request_check.h"

#include "api/anthropic/messages_request.h"
#include "api/openai/openai_requests.h"
#include "fuzz/request_checks.h"

namespace fathom::fuzz {
namespace {

std::string CheckCompletion(const Result<CompletionRequest>& request) {
  if (!request) return CheckError(request.error());
  if (request->prompts.empty()) return "no prompt";
  return CheckFields(request->generation);
}

}  // namespace

std::string CheckChatRequest(std::string_view input) {
  std::string wrong = CheckChat(ParseChatCompletionRequest(input, kRequestLimits, {}));
  if (!wrong.empty()) return wrong;
  return CheckCompletion(ParseCompletionRequest(input, kRequestLimits, {}));
}

std::string CheckMessagesRequest(std::string_view input) {
  return CheckChat(ParseMessagesRequest(input, kRequestLimits, {}));
}

}  // namespace fathom::fuzz
