#include "api/api_call.h"

#include <utility>

#include "api/chat_completion_request.h"
#include "api/completion_request.h"
#include "api/prompt_tokens.h"
#include "api/responses_request.h"
#include "prompt/encoder.h"

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
                      .stop_tokens = fields.sampling.stop_tokens,
                      .stop_strings = fields.sampling.stop_strings},
          .stream = fields.stream,
          .include_usage = fields.include_usage};
}

// What is left to check are the values that came from the defaults, and the length of the prompt.
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
Result<ToolSchemas> SchemasOf(const ChatRequest& chat) {
  std::vector<ToolSpec> tools = chat.tools;
  for (const Message& message : chat.messages) {
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  }
  return ToolSchemas::Make(tools);
}

// The profile's message calls the field "reasoning effort"; clients know it by another name.
ApiError EffortError(Endpoint endpoint, const Error& error) {
  ApiError told = ToApiError(error);
  told.param = endpoint == Endpoint::kResponses ? "reasoning.effort" : "reasoning_effort";
  return told;
}

// A chat of any API, once it is read.
ApiResult<ApiCall> PrepareChat(Endpoint endpoint, Result<ChatCompletionRequest> request,
                               const ApiModel& model) {
  if (!request) return Failed(request.error());
  const Result<EffortLevel> effort = FindEffort(model.profile, request->encoding.effort);
  if (!effort) return Failed(EffortError(endpoint, effort.error()));
  Result<ToolSchemas> schemas = SchemasOf(request->chat);
  if (!schemas) return Failed(schemas.error());
  const Result<EncodedPrompt> prompt =
      EncodeChat(std::move(request->chat), request->encoding, model.profile);
  if (!prompt) return Failed(prompt.error());
  Result<std::vector<Token>> tokens = EncodePrompt(*model.tokenizer, *prompt);
  if (!tokens) return Failed(tokens.error());

  ApiCall call = StartCall(endpoint, request->generation, model);
  call.answers.starts_in_reasoning = prompt->ends_in_reasoning;
  call.answers.tools = *std::move(schemas);
  call.answers.parallel_tool_calls = request->parallel_tool_calls;
  call.answers.include_reasoning = request->include_reasoning;
  std::optional<ApiError> error = AddRequest(*std::move(tokens), request->generation, model, &call);
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

Result<std::vector<Token>> TokensOf(CompletionPrompt prompt, bool add_bos, const ApiModel& model) {
  if (auto* tokens = std::get_if<std::vector<Token>>(&prompt)) return std::move(*tokens);
  Result<std::vector<Token>> tokens =
      model.tokenizer->Encode(std::get<std::string>(prompt), SpecialTokens::kParse);
  if (!tokens) {
    return MakeError(tokens.error().code, "prompt: {}", tokens.error().message);
  }
  if (add_bos && (tokens->empty() || tokens->front() != model.bos)) {
    tokens->insert(tokens->begin(), model.bos);
  }
  return tokens;
}

ApiResult<ApiCall> PrepareCompletion(std::string_view body, const ApiModel& model) {
  Result<CompletionRequest> request = ParseCompletionRequest(body, model.limits, model.defaults);
  if (!request) return Failed(request.error());
  ApiCall call = StartCall(Endpoint::kCompletions, request->generation, model);
  for (CompletionPrompt& prompt : request->prompts) {
    Result<std::vector<Token>> tokens =
        TokensOf(std::move(prompt), request->add_special_tokens, model);
    if (!tokens) return Failed(tokens.error());
    std::optional<ApiError> error =
        AddRequest(*std::move(tokens), request->generation, model, &call);
    if (error) return Failed(*std::move(error));
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
      break;
  }
  return Failed({ErrorCode::kNotFound, "not built yet"});
}

}  // namespace fathom
