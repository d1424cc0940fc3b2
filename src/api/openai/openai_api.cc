#include "api/openai/openai_api.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/common/chat_call.h"
#include "api/openai/openai_requests.h"
#include "chat/literals.h"

namespace fathom {
namespace {

Result<std::vector<Token>> TokensOf(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) return *tokens;
  Result<std::vector<Token>> tokens =
      tokenizer.Encode(std::get<std::string>(prompt), SpecialTokens::kParse);
  if (!tokens) return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  return tokens;
}

// Puts the tokens of the gap around and between both texts; the model fills the gap behind the last
// one.
Result<std::vector<Token>> FillInTheMiddle(std::vector<Token> prefix, std::string_view suffix,
                                           const Tokenizer& tokenizer) {
  const std::optional<Token> begin = tokenizer.Find(kFimBegin);
  const std::optional<Token> hole = tokenizer.Find(kFimHole);
  const std::optional<Token> end = tokenizer.Find(kFimEnd);
  if (!begin || !hole || !end) {
    return MakeError(ErrorCode::kUnsupported, "suffix: this model has no tokens for it");
  }
  const Result<std::vector<Token>> behind = tokenizer.Encode(suffix, SpecialTokens::kParse);
  if (!behind) return MakeError(behind.error().code, "suffix: {}", behind.error().message);
  std::vector<Token> tokens = std::move(prefix);
  tokens.insert(tokens.begin(), *begin);
  tokens.push_back(*hole);
  tokens.insert(tokens.end(), behind->begin(), behind->end());
  tokens.push_back(*end);
  return tokens;
}

Result<std::vector<Token>> TokensOf(const CompletionPrompt& prompt,
                                    const CompletionRequest& request, const ApiModel& model) {
  Result<std::vector<Token>> tokens = TokensOf(prompt, *model.tokenizer);
  if (!tokens) return tokens;
  bool begins = !tokens->empty() && tokens->front() == model.bos;
  if (request.suffix) {
    if (begins) tokens->erase(tokens->begin());
    tokens = FillInTheMiddle(*std::move(tokens), *request.suffix, *model.tokenizer);
    if (!tokens) return tokens;
    if (begins) tokens->insert(tokens->begin(), model.bos);
  }
  begins =
      begins || !request.add_special_tokens || std::holds_alternative<std::vector<Token>>(prompt);
  if (!begins) tokens->insert(tokens->begin(), model.bos);
  return tokens;
}

// Returns the prompt as the client wrote it, or the text of its tokens.
Result<std::string> PromptText(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return tokenizer.Decode(std::get<std::vector<Token>>(prompt));
}

ApiResult<ApiCall> PrepareCompletion(const ApiBody& body, const ApiModel& model) {
  Result<CompletionRequest> request = ParseCompletionRequest(body, model.limits, model.defaults);
  if (!request) return UnexpectedApiError(request.error());
  ApiCall call = StartCall(kCompletions, request->generation, model);
  for (const CompletionPrompt& prompt : request->prompts) {
    Result<std::vector<Token>> tokens = TokensOf(prompt, *request, model);
    if (!tokens) return UnexpectedApiError(tokens.error());
    std::optional<ApiError> error =
        AddRequest(*std::move(tokens), request->generation, model, &call);
    if (error) return tl::unexpected<ApiError>(*std::move(error));
    if (!request->echo) continue;
    Result<std::string> text = PromptText(prompt, *model.tokenizer);
    if (!text) return UnexpectedApiError(text.error());
    call.echoes.push_back(*std::move(text));
  }
  return call;
}

constexpr std::string_view kChatPaths[] = {"/v1/chat/completions", "/chat/completions"};
constexpr std::string_view kCompletionPaths[] = {"/v1/completions", "/completions",
                                                 "/beta/completions"};

}  // namespace

ApiReply OpenAiError(const ApiError& error) {
  return {.status = error.status, .body = ToJson(error)};
}

JsonValue OpenAiModelCard(const ModelCard& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "deepseek-ai"},
          {"root", model.root},
          {"parent", nullptr},
          {"max_model_len", model.max_context}};
}

JsonValue OpenAiModelList(std::span<const ModelCard> models) {
  JsonValue list = JsonValue::Array();
  for (const ModelCard& model : models) list.push_back(OpenAiModelCard(model));
  // Codex reads the second list.
  return {{"object", "list"}, {"data", list}, {"models", list}};
}

const Api kChatCompletions = {
    .paths = kChatPaths,
    .prepare =
        [](const ApiBody& body, const ApiModel& model) {
          auto request = ParseChatCompletionRequest(body, model.limits, model.defaults);
          const bool is_legacy = request && request->legacy_functions;
          ApiResult<ApiCall> call = PrepareChat(kChatCompletions, std::move(request), model);
          if (call && is_legacy) call->context = LegacyFunctions();
          return call;
        },
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
