#include "fuzz/request_checks.h"

#include <utility>

#include "api/common/api.h"
#include "base/utf8.h"
#include "chat/encoder.h"
#include "json/json_value.h"

namespace fathom::fuzz {

std::string CheckError(const Error& error) {
  const ApiError told = ToApiError(error);
  if (told.status != 400) return "a wrong body is not the client's error: " + error.message;
  if (told.message.empty()) return "an error without a message";
  for (const Api* api : Apis()) {
    const std::string body = api->error(told).body;
    if (!ParseJson(body, {.python_constants = false})) return "an error that is not JSON: " + body;
  }
  return "";
}

std::string CheckFields(const GenerationFields& fields) {
  const Status valid = Validate(fields.sampling, kRequestLimits.vocab_size);
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

}  // namespace fathom::fuzz
