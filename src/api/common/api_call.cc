#include "api/common/api_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/anthropic/messages_request.h"
#include "api/common/chat_tokens.h"
#include "api/common/prompt_tokens.h"
#include "api/openai/chat_completion_request.h"
#include "api/openai/completion_request.h"
#include "api/responses/responses_request.h"
#include "chat/encoder.h"
#include "chat/literals.h"
#include "json/json_value.h"

namespace fathom {
namespace {

struct Path {
  std::string_view path;
  Endpoint endpoint;
};

constexpr Path kPaths[] = {
    {"/v1/chat/completions", Endpoint::kChatCompletions},
    {"/chat/completions", Endpoint::kChatCompletions},
    {"/v1/completions", Endpoint::kCompletions},
    {"/completions", Endpoint::kCompletions},
    {"/beta/completions", Endpoint::kCompletions},
    {"/v1/responses", Endpoint::kResponses},
    {"/responses", Endpoint::kResponses},
    {"/v1/messages", Endpoint::kMessages},
    {"/anthropic/v1/messages", Endpoint::kMessages},
};

tl::unexpected<ApiError> Failed(ApiError error) {
  return tl::unexpected<ApiError>(std::move(error));
}

tl::unexpected<ApiError> Failed(const Error& error) { return Failed(ToApiError(error)); }

ApiCall StartCall(Endpoint endpoint, const GenerationFields& fields, const ApiModel& model) {
  return {.endpoint = endpoint,
          .model = fields.model.empty() ? model.name : fields.model,
          .requests = {},
          .answers = {.is_chat = endpoint != Endpoint::kCompletions,
                      // The Responses API promises the same response whole and streamed.
                      .stream_arguments = fields.stream || endpoint == Endpoint::kResponses,
                      .call_id_prefix = endpoint == Endpoint::kMessages ? "toolu_" : "call_",
                      .stop_tokens = fields.sampling.stop_tokens,
                      .stop_strings = fields.sampling.stop_strings},
          .stream = fields.stream,
          .include_usage = fields.include_usage,
          .continuous_usage = fields.continuous_usage};
}

// Checks the values that came from the defaults, and the length of the prompt.
std::optional<ApiError> AddRequest(std::vector<Token> tokens, const GenerationFields& fields,
                                   const ApiModel& model, ApiCall* call) {
  const std::int64_t n_tokens = static_cast<std::int64_t>(tokens.size());
  if (n_tokens > model.limits.max_context) {
    ApiError error = ContextLengthError(n_tokens, model.limits.max_context);
    if (!call->answers.is_chat) error.param = "prompt";
    if (call->endpoint == Endpoint::kResponses) error.param = "input";
    return error;
  }
  if (n_tokens == 0) {
    return ToApiError({ErrorCode::kInvalidArgument, "prompt: expected some text, found none"});
  }
  const Status valid = Validate(fields.sampling, model.limits.vocab_size);
  if (!valid) return ToApiError(valid.error());
  call->requests.push_back({.prompt = std::move(tokens),
                            .sampling = fields.sampling,
                            .n_choices = fields.n_choices,
                            .priority = fields.priority});
  return std::nullopt;
}

// The tools of the request and of its messages.
std::vector<ToolSpec> ToolsOf(const ChatRequest& chat) {
  std::vector<ToolSpec> tools = chat.tools;
  for (const Message& message : chat.messages) {
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  }
  return tools;
}

// The profile's message calls the field "reasoning effort"; clients know it by another name.
ApiError EffortError(Endpoint endpoint, const Error& error) {
  ApiError told = ToApiError(error);
  told.param = endpoint == Endpoint::kMessages    ? "output_config.effort"
               : endpoint == Endpoint::kResponses ? "reasoning.effort"
                                                  : "reasoning_effort";
  return told;
}

// Returns the tools one of which the request requires; none: the answer may call any.
Result<std::vector<ToolSpec>> ForcedTools(const ToolChoice& choice, std::vector<ToolSpec> tools) {
  using Kind = ToolChoice::Kind;
  if (choice.kind != Kind::kRequired && choice.kind != Kind::kNamed) {
    return std::vector<ToolSpec>();
  }
  if (choice.kind == Kind::kNamed) {
    std::erase_if(tools, [&](const ToolSpec& tool) { return tool.name != choice.name; });
  } else if (!choice.allowed.empty()) {
    std::erase_if(tools, [&](const ToolSpec& tool) {
      return std::find(choice.allowed.begin(), choice.allowed.end(), tool.name) ==
             choice.allowed.end();
    });
  }
  if (!tools.empty()) return tools;
  if (choice.kind == Kind::kRequired) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "tool_choice: expected tools where one is required, found none");
  }
  const JsonValue name(choice.name);
  return MakeError(ErrorCode::kInvalidArgument,
                   "tool_choice: expected the name of one of the tools, found {}", name.Describe());
}

// Stop strings end the visible text: they are not looked for in the reasoning, which would end
// before there is an answer, and not in calls, whose values are no text of ours.
void PlaceStopStrings(const ChatCompletionRequest& request, bool starts_in_reasoning,
                      bool has_tools, const Tokenizer& tokenizer, SamplingParameters* sampling) {
  if (starts_in_reasoning && !request.stop_in_reasoning) {
    sampling->stop_strings_from = tokenizer.Find(kThinkCloseToken);
  }
  if (has_tools) sampling->stop_strings_until = tokenizer.Find(kDsml);
}

// A chat as the model reads it.
struct ChatPrompt {
  std::vector<Token> tokens;
  bool ends_in_reasoning = false;
  std::optional<OpenConversation> conversation{};  // none: the answer is not a turn of its own
  std::size_t n_replayed = 0;
};

// Whether the answer is a turn of its own, from its beginning on.
bool BeginsATurn(const ChatRequest& chat) {
  if (chat.messages.empty()) return false;
  const Role last = chat.messages.back().role;
  return last == Role::kUser || last == Role::kTool || last == Role::kDeveloper;
}

ApiResult<ChatPrompt> EncodeMessages(Endpoint endpoint, ChatRequest chat,
                                     const EncodeOptions& options, const ApiModel& model) {
  const Result<EffortLevel> effort = FindEffort(model.profile, options.effort);
  if (!effort) return Failed(EffortError(endpoint, effort.error()));
  std::optional<OpenConversation> conversation;
  if (model.turns != nullptr) {
    const OpenConversation open = model.turns->Recall(&chat.messages);
    if (BeginsATurn(chat)) conversation = open;
  }
  const Result<EncodedPrompt> prompt = EncodeChat(std::move(chat), options, model.profile);
  if (!prompt) return Failed(prompt.error());
  Result<std::vector<Token>> tokens = EncodePrompt(*model.tokenizer, *prompt);
  if (!tokens) return Failed(tokens.error());
  const auto n_replayed =
      std::count_if(prompt->spans.begin(), prompt->spans.end(),
                    [](const PromptSpan& span) { return !span.tokens.empty(); });
  return ChatPrompt{.tokens = *std::move(tokens),
                    .ends_in_reasoning = prompt->ends_in_reasoning,
                    .conversation = conversation,
                    .n_replayed = static_cast<std::size_t>(n_replayed)};
}

// A chat of any API, once it is read.
ApiResult<ApiCall> PrepareChat(Endpoint endpoint, Result<ChatCompletionRequest> request,
                               const ApiModel& model) {
  if (!request) return Failed(request.error());
  const std::vector<ToolSpec> tools = ToolsOf(request->chat);
  // A schema that has to be kept takes more than a model that means well.
  if (!request->strict_field.empty() && !tools.empty()) {
    return Failed(Error{ErrorCode::kUnsupported,
                        fmt::format("{}: not supported yet", request->strict_field)});
  }
  Result<ToolSchemas> schemas = ToolSchemas::Make(tools);
  if (!schemas) return Failed(schemas.error());
  ApiResult<ChatPrompt> prompt =
      EncodeMessages(endpoint, std::move(request->chat), request->encoding, model);
  if (!prompt) return Failed(std::move(prompt.error()));
  PlaceStopStrings(*request, prompt->ends_in_reasoning, !tools.empty(), *model.tokenizer,
                   &request->generation.sampling);

  ApiCall call = StartCall(endpoint, request->generation, model);
  call.answers.turn_tokens = TurnTokens(*model.tokenizer);
  AddChatTokens(*model.tokenizer, &request->generation.sampling);
  call.answers.starts_in_reasoning = prompt->ends_in_reasoning;
  call.answers.tools = *std::move(schemas);
  call.answers.parallel_tool_calls = request->parallel_tool_calls;
  call.answers.include_reasoning = request->include_reasoning;
  call.conversation = prompt->conversation;
  call.n_replayed = prompt->n_replayed;
  const Result<std::vector<ToolSpec>> forced = ForcedTools(request->tool_choice, tools);
  if (!forced) return Failed(forced.error());
  if (!forced->empty()) {
    Result<ForcedCall> forced_call = MakeForcedCall(*forced, prompt->ends_in_reasoning,
                                                    *model.tokenizer, model.limits.max_context);
    if (!forced_call) return Failed(forced_call.error());
    call.forced_call = *std::move(forced_call);
    call.answers.begins_with_call = true;
  }
  std::optional<ApiError> error =
      AddRequest(std::move(prompt->tokens), request->generation, model, &call);
  if (error) return Failed(*std::move(error));
  return call;
}

ApiResult<ApiCall> PrepareResponse(std::string_view body, const ApiModel& model) {
  Result<ResponsesRequest> request =
      ParseResponsesRequest(body, model.limits, model.defaults, model.responses);
  if (!request) return Failed(request.error());
  ApiResult<ApiCall> call = PrepareChat(Endpoint::kResponses, std::move(request->chat), model);
  if (call) call->responses = std::move(request->context);
  return call;
}

Result<std::vector<Token>> TokensOf(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) return *tokens;
  Result<std::vector<Token>> tokens =
      tokenizer.Encode(std::get<std::string>(prompt), SpecialTokens::kParse);
  if (!tokens) {
    return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  }
  return tokens;
}

// Both texts with the marks of the gap between them, which is filled behind the last mark.
Result<std::vector<Token>> FillInTheMiddle(std::vector<Token> prefix, std::string_view suffix,
                                           const Tokenizer& tokenizer) {
  const std::optional<Token> begin = tokenizer.Find(kFimBegin);
  const std::optional<Token> hole = tokenizer.Find(kFimHole);
  const std::optional<Token> end = tokenizer.Find(kFimEnd);
  if (!begin || !hole || !end) {
    return MakeError(ErrorCode::kUnsupported, "suffix: this model has no tokens for it");
  }
  const Result<std::vector<Token>> behind = tokenizer.Encode(suffix, SpecialTokens::kParse);
  if (!behind) {
    return MakeError(behind.error().code, "suffix: {}", behind.error().message);
  }
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

// The prompt as the client wrote it, or as what its tokens say.
Result<std::string> TextOf(const CompletionPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return tokenizer.Decode(std::get<std::vector<Token>>(prompt));
}

ApiResult<ApiCall> PrepareCompletion(std::string_view body, const ApiModel& model) {
  Result<CompletionRequest> request = ParseCompletionRequest(body, model.limits, model.defaults);
  if (!request) return Failed(request.error());
  ApiCall call = StartCall(Endpoint::kCompletions, request->generation, model);
  for (const CompletionPrompt& prompt : request->prompts) {
    Result<std::vector<Token>> tokens = TokensOf(prompt, *request, model);
    if (!tokens) return Failed(tokens.error());
    std::optional<ApiError> error =
        AddRequest(*std::move(tokens), request->generation, model, &call);
    if (error) return Failed(*std::move(error));
    if (!request->echo) continue;
    Result<std::string> text = TextOf(prompt, *model.tokenizer);
    if (!text) return Failed(text.error());
    call.echoes.push_back(*std::move(text));
  }
  return call;
}

}  // namespace

std::optional<Endpoint> FindEndpoint(std::string_view path) {
  for (const Path& entry : kPaths) {
    if (entry.path == path) return entry.endpoint;
  }
  return std::nullopt;
}

ApiResult<ApiCall> PrepareCall(Endpoint endpoint, std::string_view body, const ApiModel& model) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return PrepareChat(endpoint, ParseChatCompletionRequest(body, model.limits, model.defaults),
                         model);
    case Endpoint::kCompletions:
      return PrepareCompletion(body, model);
    case Endpoint::kResponses:
      return PrepareResponse(body, model);
    case Endpoint::kMessages:
      return PrepareChat(endpoint, ParseMessagesRequest(body, model.limits, model.defaults), model);
  }
  return Failed({ErrorCode::kNotFound, "no such endpoint"});
}

ApiResult<std::int64_t> CountMessageTokens(std::string_view body, const ApiModel& model) {
  Result<ChatCompletionRequest> request = ParseMessagesRequest(body, model.limits, model.defaults);
  if (!request) return Failed(request.error());
  const ApiResult<ChatPrompt> prompt =
      EncodeMessages(Endpoint::kMessages, std::move(request->chat), request->encoding, model);
  if (!prompt) return Failed(prompt.error());
  return static_cast<std::int64_t>(prompt->tokens.size());
}

}  // namespace fathom
