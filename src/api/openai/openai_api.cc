#include "api/openai/openai_api.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/common/chat_call.h"
#include "api/openai/openai_requests.h"
#include "chat/literals.h"

namespace fathom {
namespace {

Result<std::vector<Token>> EncodeCompletion(const CompletionPrompt& prompt,
                                            const Tokenizer& tokenizer, const StopFunction& stop) {
  if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) return *tokens;
  Result<std::vector<Token>> tokens =
      tokenizer.Encode(std::get<std::string>(prompt), SpecialTokens::kParse, stop);
  if (!tokens) return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  return tokens;
}

// Puts the tokens of the gap around and between both texts; the model fills the gap behind the last
// one.
Result<std::vector<Token>> FillInTheMiddle(std::vector<Token> prefix, std::string_view suffix,
                                           const Tokenizer& tokenizer, const StopFunction& stop) {
  const std::optional<Token> begin = tokenizer.Find(kFimBegin);
  const std::optional<Token> hole = tokenizer.Find(kFimHole);
  const std::optional<Token> end = tokenizer.Find(kFimEnd);
  if (!begin || !hole || !end) {
    return MakeError(ErrorCode::kUnsupported, "suffix: this model has no tokens for it");
  }
  const Result<std::vector<Token>> behind = tokenizer.Encode(suffix, SpecialTokens::kParse, stop);
  if (!behind) return MakeError(behind.error().code, "suffix: {}", behind.error().message);
  std::vector<Token> tokens = std::move(prefix);
  tokens.insert(tokens.begin(), *begin);
  tokens.push_back(*hole);
  tokens.insert(tokens.end(), behind->begin(), behind->end());
  tokens.push_back(*end);
  return tokens;
}

// Returns a number of tokens that the texts have at least, without encoding them.
std::int64_t LeastTokens(const CompletionPrompt& prompt, const CompletionRequest& request,
                         const Tokenizer& tokenizer) {
  const auto* text = std::get_if<std::string>(&prompt);
  return tokenizer.LeastTokens((text == nullptr ? 0 : text->size()) +
                               (request.suffix ? request.suffix->size() : 0));
}

// `n_added`: the tokens in front of those of the client's text.
Result<std::vector<Token>> EncodeCompletion(const CompletionPrompt& prompt,
                                            const CompletionRequest& request, const ApiModel& model,
                                            const StopFunction& stop, std::size_t* n_added) {
  Result<std::vector<Token>> tokens = EncodeCompletion(prompt, *model.tokenizer, stop);
  if (!tokens) return tokens;
  const bool begins = !tokens->empty() && tokens->front() == model.bos;
  if (request.suffix) {
    if (begins) tokens->erase(tokens->begin());
    tokens = FillInTheMiddle(*std::move(tokens), *request.suffix, *model.tokenizer, stop);
    if (!tokens) return tokens;
    if (begins) tokens->insert(tokens->begin(), model.bos);
  }
  const bool is_text = std::holds_alternative<std::string>(prompt);
  *n_added = is_text && request.add_special_tokens && !begins ? 1 : 0;
  tokens->insert(tokens->begin(), *n_added, model.bos);
  return tokens;
}

// Returns the prompt as the client wrote it, or the text of its tokens.
Result<std::string> PromptText(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return tokenizer.Decode(std::get<std::vector<Token>>(prompt));
}

// Returns what the responses to a request say beside the answers.
OpenAiContext ContextFor(const GenerationFields& fields) {
  return {.logprobs = fields.sampling.top_logprobs,
          .prompt_logprobs = fields.prompt_logprobs,
          .token_ids = fields.return_token_ids,
          .names_tokens_by_id = fields.names_tokens_by_id};
}

// Returns the names of the tools that take a text.
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

// The log probabilities that a completion needs, and those that it tells: an echo has those of its
// prompt, and the best answers are those of the highest probability.
OpenAiContext PlaceLogprobs(CompletionRequest* request) {
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
  OpenAiContext context = PlaceLogprobs(&*request);
  ApiCall call = StartCall(kCompletions, request->generation, model);
  for (const CompletionPrompt& prompt : request->prompts) {
    const std::int64_t n_least = LeastTokens(prompt, *request, *model.tokenizer);
    if (n_least > model.limits.max_context) {
      ApiError error = ContextLengthError(n_least, model.limits.max_context, /*is_least=*/true);
      error.param = kCompletions.prompt_field;
      return tl::unexpected<ApiError>(std::move(error));
    }
    std::size_t n_added = 0;
    Result<std::vector<Token>> tokens =
        EncodeCompletion(prompt, *request, model, body.is_abandoned, &n_added);
    if (!tokens) return UnexpectedApiError(tokens.error());
    if (request->echo) {
      Result<std::string> text = PromptText(prompt, *model.tokenizer);
      if (!text) return UnexpectedApiError(text.error());
      context.echoes.push_back({.text = *std::move(text), .n_added = n_added});
    }
    std::optional<ApiError> error =
        AddRequest(*std::move(tokens), request->generation, model, &call);
    if (error) return tl::unexpected<ApiError>(*std::move(error));
  }
  if (auto error = AddConstraint({}, {}, request->generation, model, &call)) {
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

JsonValue OpenAiModelList(std::span<const ModelCard> models) {
  JsonValue list = JsonValue::Array();
  for (const ModelCard& model : models) list.push_back(OpenAiModelCard(model));
  // Codex reads the second list.
  return {{"object", "list"}, {"data", list}, {"models", list}};
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

}  // namespace fathom
