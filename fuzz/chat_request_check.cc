#include "fuzz/chat_request_check.h"

#include <utility>

#include "api/answer_format.h"
#include "api/api_error.h"
#include "api/chat_completion_request.h"
#include "api/completion_request.h"
#include "api/messages_request.h"
#include "base/utf8.h"
#include "prompt/encoder.h"
#include "prompt/json_value.h"

namespace fathom::fuzz {
namespace {

constexpr std::int64_t kVocabSize = 1000;

// Every refusal can be told to a client.
std::string CheckError(const Error& error) {
  const ApiError told = ToApiError(error);
  if (told.status != 400) return "a wrong body is not the client's error: " + error.message;
  if (told.message.empty()) return "an error without a message";
  for (const Endpoint endpoint : {Endpoint::kChatCompletions, Endpoint::kMessages}) {
    const std::string body = ErrorBody(endpoint, told);
    if (!ParseJson(body, {.python_constants = false})) return "an error that is not JSON: " + body;
  }
  return "";
}

std::string CheckFields(const GenerationFields& fields) {
  const Status valid = Validate(fields.sampling, kVocabSize);
  if (!valid) return "the engine refuses what was accepted: " + valid.error().message;
  if (fields.n_choices < 1 || fields.n_choices > kMaxChoices) return "a wrong number of choices";
  if (fields.priority < -kMaxPriority || fields.priority > kMaxPriority) return "a wrong priority";
  return "";
}

std::string CheckChat(Result<ChatCompletionRequest> request) {
  if (!request) return CheckError(request.error());
  std::string wrong = CheckFields(request->generation);
  if (!wrong.empty()) return wrong;
  const Result<EncodedPrompt> prompt =
      EncodeChat(std::move(request->chat), request->encoding, PreviewProfile());
  if (!prompt) return CheckError(prompt.error());
  return IsValidUtf8(prompt->Text()) ? "" : "a prompt that is not UTF-8";
}

std::string CheckCompletion(const Result<CompletionRequest>& request) {
  if (!request) return CheckError(request.error());
  if (request->prompts.empty()) return "no prompt";
  return CheckFields(request->generation);
}

constexpr RequestLimits kLimits = {.vocab_size = kVocabSize, .max_context = 4096};

}  // namespace

std::string CheckChatRequest(std::string_view input) {
  std::string wrong = CheckChat(ParseChatCompletionRequest(input, kLimits, {}));
  if (!wrong.empty()) return wrong;
  return CheckCompletion(ParseCompletionRequest(input, kLimits, {}));
}

std::string CheckMessagesRequest(std::string_view input) {
  return CheckChat(ParseMessagesRequest(input, kLimits, {}));
}

}  // namespace fathom::fuzz
