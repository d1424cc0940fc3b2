#include "api/common/chat_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "api/common/api.h"
#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "chat/literals.h"
#include "chat/shown_request.h"
#include "json/json_value.h"

namespace fathom::api {
namespace {

// Returns the tools of the request and of its messages.
std::vector<ToolSpec> ListTools(const ChatRequest& chat) {
  std::vector<ToolSpec> tools = chat.tools;
  for (const Message& message : chat.messages) {
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  }
  return tools;
}

bool IsAvailable(const ToolSpec& tool) { return tool.is_available; }

// Returns true if the prompt shows the tool but it must not be called any more.
bool IsTakenAway(const ToolSpec& tool) { return !tool.is_deferred && !tool.is_available; }

// Returns the tools that the answer may call.
Result<CallableTools> ChooseTools(const ToolChoice& choice, std::vector<ToolSpec> tools) {
  using Kind = ToolChoice::Kind;
  if (choice.kind == Kind::kNone) return CallableTools();
  const bool is_restricted =
      !choice.allowed.empty() || std::any_of(tools.begin(), tools.end(), IsTakenAway);
  if (choice.kind == Kind::kNamed) {
    std::erase_if(tools, [&](const ToolSpec& tool) { return tool.name != choice.name; });
  } else if (!choice.allowed.empty()) {
    const std::set<std::string_view> allowed(choice.allowed.begin(), choice.allowed.end());
    std::erase_if(tools, [&](const ToolSpec& tool) { return !allowed.contains(tool.name); });
  }
  // A choice that names a tool demands this tool, even if it was not found before.
  if (choice.kind != Kind::kNamed || std::any_of(tools.begin(), tools.end(), IsAvailable)) {
    std::erase_if(tools, [](const ToolSpec& tool) { return !IsAvailable(tool); });
  }
  const bool is_required = choice.kind == Kind::kNamed || choice.kind == Kind::kRequired;
  if (!tools.empty()) {
    return CallableTools{
        .tools = std::move(tools), .is_required = is_required, .is_restricted = is_restricted};
  }
  if (!is_required && choice.allowed.empty()) return CallableTools();
  if (choice.kind != Kind::kNamed) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "tool_choice: expected tools where one is required, found none");
  }
  const JsonValue name(choice.name);
  return MakeError(ErrorCode::kInvalidArgument,
                   "tool_choice: expected the name of one of the tools, found {}", name.Describe());
}

// Stop strings end the visible text. They are not searched in the reasoning, where a match would
// end the answer before its content begins, nor in calls, whose values are not text for the user.
void SetStopStrings(const ChatCompletionRequest& request, bool starts_in_reasoning, bool has_tools,
                    const Tokenizer& tokenizer, SamplingParameters* sampling) {
  if (starts_in_reasoning && !request.stop_in_reasoning) {
    sampling->stop_strings_from = tokenizer.Find(kThinkCloseToken);
  }
  if (has_tools) sampling->stop_strings_until = tokenizer.Find(kDsml);
}

// A model without a token for the end of its reasoning has no budget for it.
void SetReasoningBudget(const ChatCompletionRequest& request, bool starts_in_reasoning,
                        const Tokenizer& tokenizer, SamplingParameters* sampling) {
  const std::optional<Token> think_close = tokenizer.Find(kThinkCloseToken);
  if (!request.reasoning_budget || !starts_in_reasoning || !think_close) return;
  sampling->reasoning_budget = {.n_tokens = *request.reasoning_budget, .end = *think_close};
}

// A chat as a prompt for the model.
struct ChatPrompt {
  std::vector<Token> tokens;
  AnswerStart start{};
  std::optional<OpenConversation> conversation{};  // none: the answer is not a whole turn
  std::size_t n_replayed = 0;
};

// Returns true if the answer is a turn of its own, which does not continue the last message.
bool BeginsATurn(const ChatRequest& chat, const EncodeOptions& options) {
  if (chat.messages.empty()) return false;
  const Message& last = chat.messages.back();
  return last.role != Role::kAssistant || (options.begins_turn && !last.leave_open);
}

// A prompt that certainly has more than max_tokens is refused before it is encoded.
ApiResult<ChatPrompt> EncodeMessages(ChatRequest chat, EncodeOptions options, const ApiModel& model,
                                     std::int64_t max_tokens, const StopFunction& stop) {
  // Must precede the recall of turns, which are found by the arranged messages before them.
  ShowAsConverter(&chat);
  options.heads_each_turn = true;
  std::optional<OpenConversation> conversation;
  if (model.turns != nullptr) {
    const OpenConversation open = model.turns->Recall(&chat.messages);
    if (BeginsATurn(chat, options)) conversation = open;
  }
  const Result<EncodedPrompt> prompt = EncodeChat(std::move(chat), options, model.profile);
  if (!prompt) return UnexpectedApiError(prompt.error());
  const std::int64_t n_least = LeastTokens(*model.tokenizer, *prompt);
  if (n_least > max_tokens) {
    return tl::unexpected(ContextLengthError(n_least, max_tokens, /*is_least=*/true));
  }
  Result<std::vector<Token>> tokens = EncodePrompt(*model.tokenizer, *prompt, stop);
  if (!tokens) return UnexpectedApiError(tokens.error());
  const auto n_replayed =
      std::count_if(prompt->spans.begin(), prompt->spans.end(),
                    [](const PromptSpan& span) { return !span.tokens.empty(); });
  return ChatPrompt{.tokens = *std::move(tokens),
                    .start = prompt->start,
                    .conversation = conversation,
                    .n_replayed = static_cast<std::size_t>(n_replayed)};
}

// Applies the lengths and the sampling of DeepSeek's hosted API (docs/spec/encoding.md section 12).
// The default limit of the answer is 8,192 tokens, 65,536 with thinking, and 131,072 with thinking
// of the highest effort, but not more than there is room for. With thinking, the temperature is 1
// and top_p is 1, or 0.95 with tools, whatever the request asks for. Efforts that the profile does
// not have count as no thinking. `room`: tokens of the context that the prompt leaves free.
void ApplyHostedDefaults(const EncodeOptions& options, const PromptProfile& profile, bool has_tools,
                         std::int64_t room, SamplingParameters* sampling) {
  const Result<EffortLevel> effort = FindEffort(profile, options.effort);
  const bool thinks = options.thinking == ThinkingMode::kThinking && effort && effort->thinks;
  const Result<EffortLevel> highest = FindEffort(profile, "max");
  const bool thinks_most = thinks && highest && effort->prefix == highest->prefix;
  if (!sampling->max_tokens) {
    const std::int64_t limit = thinks_most ? 131'072 : thinks ? 65'536 : 8'192;
    sampling->max_tokens = std::max<std::int64_t>(1, std::min(limit, room));
  }
  if (!thinks) return;
  sampling->temperature = 1;
  sampling->top_p = has_tools ? 0.95 : 1;
}

// The text begins with the length of the client's salt, so that different pairs of salts make
// different texts.
std::string CacheSalt(const ApiModel& model, const GenerationFields& fields) {
  if (model.cache_salt.empty() && fields.cache_salt.empty()) return "";
  return fmt::format("{} {}{}", model.cache_salt.size(), model.cache_salt, fields.cache_salt);
}

}  // namespace

ApiCall StartCall(const Api& api, const GenerationFields& fields, const ApiModel& model) {
  return {.api = &api,
          .model = fields.model.empty() ? model.name : fields.model,
          .requests = {},
          .answers = {.is_chat = api.is_chat,
                      .parser = {.tools = ToolSchemas(),
                                 .stream_arguments = fields.stream || api.always_streams_arguments,
                                 .call_id_prefix = std::string(api.call_id)},
                      .stop_tokens = fields.sampling.stop_tokens,
                      .stop_strings = fields.sampling.stop_strings},
          .stream = fields.stream,
          .include_usage = fields.include_usage,
          .continuous_usage = fields.continuous_usage,
          .relaxed = fields.relaxed};
}

std::optional<ApiError> AddConstraint(const AnswerFrame& frame, const GenerationFields& fields,
                                      const ApiModel& model, const StopFunction& stop,
                                      ApiCall* call) {
  const ConstraintRules rules = {.tool_grammar = model.defaults.tool_grammar,
                                 .openai = fields.openai_rules};
  const bool has_form = fields.form.constraint.kind != ContentConstraint::Kind::kNone;
  const ContentForm& form = has_form ? fields.form : model.defaults.form;
  ApiResult<AnswerConstraint> constraint =
      MakeAnswerConstraint(form, frame, rules, model.compile_constraint,
                           {.owner = model.cache_salt, .is_abandoned = stop});
  if (!constraint) return std::move(constraint.error());
  for (Request& request : call->requests) request.sampling.constraint = constraint->constraint;
  for (const std::string& path : constraint->relaxed) AddRelaxed(path, &call->relaxed);
  call->compile_seconds = constraint->seconds;
  return std::nullopt;
}

std::optional<ApiError> AddRequest(std::vector<Token> tokens, const GenerationFields& fields,
                                   const ApiModel& model, ApiCall* call) {
  const std::int64_t n_tokens = static_cast<std::int64_t>(tokens.size());
  if (n_tokens > model.limits.max_context) {
    ApiError error = ContextLengthError(n_tokens, model.limits.max_context);
    error.param = call->api->prompt_field;
    return error;
  }
  if (n_tokens == 0) {
    return ToApiError({ErrorCode::kInvalidArgument, "prompt: expected some text, found none"});
  }
  const Status valid = Validate(fields.sampling, model.limits.vocab_size);
  if (!valid) return ToApiError(valid.error());
  std::int64_t n_scored = n_tokens;
  for (const Request& request : call->requests) n_scored += std::ssize(request.prompt);
  const std::int64_t n_logprobs =
      fields.prompt_logprobs ? n_scored * (1 + *fields.prompt_logprobs) : 0;
  if (n_logprobs > model.limits.max_prompt_logprobs) {
    return ToApiError({ErrorCode::kInvalidArgument,
                       fmt::format("prompt_logprobs: expected at most {} values for all prompts, "
                                   "found {}",
                                   model.limits.max_prompt_logprobs, n_logprobs)});
  }
  call->requests.push_back({.prompt = std::move(tokens),
                            .sampling = fields.sampling,
                            .n_choices = fields.n_choices,
                            .priority = fields.priority,
                            .prompt_logprobs = fields.prompt_logprobs,
                            .cache_salt = CacheSalt(model, fields),
                            .owner = model.cache_salt});
  return std::nullopt;
}

ChatCompletionRequest DefaultChat(const RequestDefaults& defaults) {
  return {.generation = {.sampling = defaults.sampling}, .encoding = defaults.encoding};
}

ApiResult<ApiCall> PrepareChat(const Api& api, Result<ChatCompletionRequest> request,
                               const ApiModel& model, const StopFunction& stop) {
  if (!request) return UnexpectedApiError(request.error());
  const std::vector<ToolSpec> tools = ListTools(request->chat);
  if (tools.size() > model.limits.max_tools) {
    return UnexpectedApiError(
        {ErrorCode::kInvalidArgument, fmt::format("tools: expected at most {}, found {} in all "
                                                  "messages",
                                                  model.limits.max_tools, tools.size())});
  }
  Result<ToolSchemas> schemas = ToolSchemas::Make(tools);
  if (!schemas) return UnexpectedApiError(schemas.error());
  ApiResult<ChatPrompt> prompt = EncodeMessages(std::move(request->chat), request->encoding, model,
                                                model.limits.max_context, stop);
  if (!prompt) {
    if (prompt.error().overflow) prompt.error().param = api.prompt_field;
    return tl::unexpected(std::move(prompt.error()));
  }
  const bool in_reasoning = prompt->start.in_reasoning;
  SetStopStrings(*request, in_reasoning, !tools.empty(), *model.tokenizer,
                 &request->generation.sampling);
  SetReasoningBudget(*request, in_reasoning, *model.tokenizer, &request->generation.sampling);
  Result<CallableTools> callable = ChooseTools(request->tool_choice, tools);
  if (!callable) return UnexpectedApiError(callable.error());
  callable->parallel = request->parallel_tool_calls;

  ApiCall call = StartCall(api, request->generation, model);
  call.answers.turn_tokens = TurnTokens(*model.tokenizer);
  AddChatTokens(*model.tokenizer, &request->generation.sampling);
  call.answers.parser.starts_in_reasoning = in_reasoning;
  call.answers.parser.begins_with_call = callable->is_required;
  call.answers.parser.tools = *std::move(schemas);
  call.answers.parallel_tool_calls = request->parallel_tool_calls;
  call.answers.include_reasoning = request->include_reasoning;
  call.conversation = prompt->conversation;
  call.n_replayed = prompt->n_replayed;
  if (model.defaults.like_hosted) {
    const std::int64_t room = model.limits.max_context - std::ssize(prompt->tokens);
    ApplyHostedDefaults(request->encoding, model.profile, !tools.empty(), room,
                        &request->generation.sampling);
  }
  std::optional<ApiError> error =
      AddRequest(std::move(prompt->tokens), request->generation, model, &call);
  if (!error) {
    error = AddConstraint({.callable = *std::move(callable), .start = std::move(prompt->start)},
                          request->generation, model, stop, &call);
  }
  if (error) return tl::unexpected(*std::move(error));
  return call;
}

ApiResult<std::int64_t> CountPromptTokens(Result<ChatCompletionRequest> request,
                                          const ApiModel& model, const StopFunction& stop) {
  if (!request) return UnexpectedApiError(request.error());
  const ApiResult<ChatPrompt> prompt =
      EncodeMessages(std::move(request->chat), request->encoding, model,
                     std::numeric_limits<std::int64_t>::max(), stop);
  if (!prompt) return tl::unexpected(prompt.error());
  return static_cast<std::int64_t>(prompt->tokens.size());
}

}  // namespace fathom::api
