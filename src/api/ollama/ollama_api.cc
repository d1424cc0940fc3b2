#include "api/ollama/ollama_api.h"

#include <fmt/chrono.h>

#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include "api/common/completion_prompt.h"
#include "api/ollama/ollama_request.h"
#include "json/json_writer.h"

namespace fathom::api {
namespace {

// Prepares a chat, or a call without requests if it has no messages.
ApiResult<ApiCall> PrepareAnyChat(const Api& api, Result<ChatCompletionRequest> request,
                                  const ApiModel& model, const StopFunction& stop) {
  if (request && request->chat.messages.empty()) return StartCall(api, request->generation, model);
  ApiResult<ApiCall> call = PrepareChat(api, std::move(request), model, stop);
  // Calls are reported whole.
  if (call) call->answers.parser.stream_arguments = false;
  return call;
}

ApiResult<ApiCall> PrepareRaw(const OllamaGenerateRequest& request, const ApiModel& model,
                              const StopFunction& stop) {
  const GenerationFields& fields = request.chat.generation;
  ApiResult<EncodedCompletion> prompt =
      EncodeCompletion(*request.raw_prompt, {.suffix = request.suffix}, model, stop);
  if (!prompt) return tl::unexpected<ApiError>(prompt.error());
  ApiCall call = StartCall(kOllamaGenerate, fields, model);
  call.answers.is_chat = false;
  std::optional<ApiError> error = AddRequest(std::move(prompt->tokens), fields, model, &call);
  if (!error) error = AddConstraint({}, fields, model, stop, &call);
  if (error) return tl::unexpected<ApiError>(*std::move(error));
  return call;
}

ApiResult<ApiCall> PrepareOllamaChat(const ApiBody& body, const ApiModel& model) {
  return PrepareAnyChat(kOllamaChat, ParseOllamaChat(body, model.limits, model.defaults), model,
                        body.is_abandoned);
}

ApiResult<ApiCall> PrepareOllamaGenerate(const ApiBody& body, const ApiModel& model) {
  Result<OllamaGenerateRequest> request = ParseOllamaGenerate(body, model.limits, model.defaults);
  if (!request) return UnexpectedApiError(request.error());
  if (request->raw_prompt) return PrepareRaw(*request, model, body.is_abandoned);
  return PrepareAnyChat(kOllamaGenerate, std::move(request->chat), model, body.is_abandoned);
}

JsonValue OllamaCard(const ModelCard& model) {
  return {{"name", model.name},
          {"model", model.name},
          {"modified_at", OllamaTime(model.created)},
          {"size", 0},  // size on disk, which no client of a server needs
          {"digest", ""},
          {"details", OllamaModelDetails()}};
}

JsonValue OllamaList(JsonValue cards) { return {{"models", std::move(cards)}}; }

constexpr std::string_view kOllamaChatPaths[] = {"/api/chat"};
constexpr std::string_view kOllamaGeneratePaths[] = {"/api/generate"};
constexpr std::string_view kOllamaPrefixes[] = {"/api/"};

}  // namespace

ApiReply OllamaError(const ApiError& error) {
  return {.status = error.status, .body = WriteJson({{"error", error.message}})};
}

std::string OllamaTime(std::int64_t seconds) {
  return fmt::format("{:%FT%TZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

JsonValue OllamaModelDetails() {
  return {{"parent_model", ""},    {"format", "safetensors"},
          {"family", "deepseek4"}, {"families", JsonValue::Array({"deepseek4"})},
          {"parameter_size", ""},  {"quantization_level", ""}};
}

const Api kOllamaChat = {
    .paths = kOllamaChatPaths,
    .path_prefixes = kOllamaPrefixes,
    .prepare = PrepareOllamaChat,
    .make_format = MakeOllamaChatFormat,
    .error = OllamaError,
    .model_card = OllamaCard,
    .model_list = OllamaList,
    .answer_id = "ollama-",
};

const Api kOllamaGenerate = {
    .paths = kOllamaGeneratePaths,
    .prepare = PrepareOllamaGenerate,
    .make_format = MakeOllamaGenerateFormat,
    .error = OllamaError,
    .model_card = OllamaCard,
    .model_list = OllamaList,
    .answer_id = "ollama-",
    .prompt_field = "prompt",
};

}  // namespace fathom::api
