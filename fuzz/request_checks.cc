#include "fuzz/request_checks.h"

#include <string_view>
#include <utility>
#include <vector>

#include "api/common/api.h"
#include "base/utf8.h"
#include "chat/encoder.h"
#include "chat/shown_request.h"
#include "json/json_value.h"

namespace fathom::fuzz {
namespace {

// True if the answer follows a turn of another role, which asks for a turn and not for a task.
bool EndsWithOtherTurn(const std::vector<Message>& messages) {
  if (messages.empty()) return false;
  const Message& last = messages.back();
  return last.role != Role::kAssistant && !last.task;
}

bool EndsWithHeader(std::string_view prompt) {
  return prompt.ends_with("<｜Assistant｜><think>") || prompt.ends_with("<｜Assistant｜></think>");
}

}  // namespace

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
  ShowAsConverter(&request->chat);
  request->encoding.heads_each_turn = true;
  const bool begins_turn = EndsWithOtherTurn(request->chat.messages);
  const Result<EncodedPrompt> prompt =
      EncodeChat(std::move(request->chat), request->encoding, PreviewProfile());
  if (!prompt) return CheckError(prompt.error());
  const std::string text = prompt->Text();
  if (!IsValidUtf8(text)) return "a prompt that is not UTF-8";
  return !begins_turn || EndsWithHeader(text) ? "" : "a prompt that ends without the header";
}

}  // namespace fathom::fuzz
