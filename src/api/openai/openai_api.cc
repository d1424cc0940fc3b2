#include "api/openai/openai_api.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/common/chat_call.h"
#include "api/common/completion_prompt.h"
#include "api/openai/openai_requests.h"

namespace fathom::api {
namespace {

// Returns the prompt as the client wrote it, or the text of its tokens.
Result<std::string> PromptText(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return tokenizer.Decode(std::get<std::vector<Token>>(prompt));
}

// Returns the fields of the response that do not come from the answers.
OpenAiContext ContextFor(const GenerationFields& fields) {
  return {.logprobs = fields.sampling.top_logprobs,
          .prompt_logprobs = fields.prompt_logprobs,
          .token_ids = fields.return_token_ids,
          .names_tokens_by_id = fields.names_tokens_by_id};
}

// Returns the names of the tools whose input is a text.
std::set<std::string, std::less<>> CustomTools(const ChatRequest& chat) {
  std::set<std::string, std::less<>> names;
  const auto add = [&names](const std::vector<ToolSpec>& tools) {
    for (const ToolSpec& tool : tools) {
      if (!tool.text_parameter.empty()) names.insert(tool.name);
    }
  };
  add(chat.tools);
  for (const Message& message : chat.messages) add(message.tools);
  return names;
}

ApiResult<ApiCall> PrepareChatCompletion(const ApiBody& body, const ApiModel& model) {
  auto request = ParseChatCompletionRequest(body, model.limits, model.defaults);
  OpenAiContext context = ContextFor(request ? request->generation : GenerationFields());
  if (request) {
    context.legacy_functions = request->legacy_functions;
    context.custom_tools = CustomTools(request->chat);
  }
  ApiResult<ApiCall> call =
      PrepareChat(kChatCompletions, std::move(request), model, body.is_abandoned);
  if (call) call->context = std::move(context);
  return call;
}

// Requests the log probabilities that a completion needs, and returns the ones that it reports. An
// echo reports its prompt's, and the best answers are the ones of the highest probability.
OpenAiContext ChooseLogprobs(CompletionRequest* request) {
  GenerationFields& fields = request->generation;
  OpenAiContext context = ContextFor(fields);
  context.n_told = request->n_told;
  if (request->echo && context.logprobs) {
    fields.prompt_logprobs = std::max(fields.prompt_logprobs.value_or(0), *context.logprobs);
  }
  if (context.n_told < fields.n_choices && !context.logprobs) fields.sampling.top_logprobs = 0;
  return context;
}

ApiResult<ApiCall> PrepareCompletion(const ApiBody& body, const ApiModel& model) {
  Result<CompletionRequest> request = ParseCompletionRequest(body, model.limits, model.defaults);
  if (!request) return UnexpectedApiError(request.error());
  OpenAiContext context = ChooseLogprobs(&*request);
  ApiCall call = StartCall(kCompletions, request->generation, model);
  for (const CompletionPrompt& prompt : request->prompts) {
    ApiResult<EncodedCompletion> encoded = EncodeCompletion(
        prompt, {.suffix = request->suffix, .add_special_tokens = request->add_special_tokens},
        model, body.is_abandoned);
    if (!encoded) return tl::unexpected<ApiError>(encoded.error());
    if (request->echo) {
      Result<std::string> text = PromptText(prompt, *model.tokenizer);
      if (!text) return UnexpectedApiError(text.error());
      context.echoes.push_back({.text = *std::move(text), .n_added = encoded->n_added});
    }
    std::optional<ApiError> error =
        AddRequest(std::move(encoded->tokens), request->generation, model, &call);
    if (error) return tl::unexpected<ApiError>(*std::move(error));
  }
  if (auto error = AddConstraint({}, request->generation, model, body.is_abandoned, &call)) {
    return tl::unexpected<ApiError>(*std::move(error));
  }
  call.context = std::move(context);
  return call;
}

constexpr std::string_view kChatPaths[] = {"/v1/chat/completions", "/chat/completions"};
constexpr std::string_view kCompletionPaths[] = {"/v1/completions", "/completions",
                                                 "/beta/completions"};

}  // namespace

const OpenAiContext& OpenAiContextIn(const ApiCall& call) {
  static const OpenAiContext kDefaults;
  const auto* context = std::any_cast<OpenAiContext>(&call.context);
  return context == nullptr ? kDefaults : *context;
}

ApiReply OpenAiError(const ApiError& error) {
  return {.status = error.status, .body = ToJson(error)};
}

JsonValue OpenAiModelCard(const ModelCard& model) {
  JsonValue card = {{"id", model.name},
                    {"object", "model"},
                    {"created", model.created},
                    {"owned_by", "deepseek-ai"},
                    {"root", model.root},
                    {"parent", nullptr},
                    {"max_model_len", model.max_context}};
  if (!model.description.empty()) card["description"] = model.description;
  return card;
}

JsonValue OpenAiModelList(JsonValue cards) {
  // Codex reads the second list.
  return {{"object", "list"}, {"data", cards}, {"models", cards}};
}

const Api kChatCompletions = {
    .paths = kChatPaths,
    .prepare = PrepareChatCompletion,
    .make_format = MakeChatFormat,
    .error = OpenAiError,
    .model_card = OpenAiModelCard,
    .model_list = OpenAiModelList,
    .answer_id = "chatcmpl-",
};

const Api kCompletions = {
    .paths = kCompletionPaths,
    .prepare = PrepareCompletion,
    .make_format = MakeCompletionFormat,
    .error = OpenAiError,
    .model_card = OpenAiModelCard,
    .model_list = OpenAiModelList,
    .is_chat = false,
    .answer_id = "cmpl-",
    .prompt_field = "prompt",
};

}  // namespace fathom::api
