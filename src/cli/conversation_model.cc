#include "cli/conversation_model.h"

#include <chrono>
#include <utility>

#include "api/common/chat_tokens.h"
#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "cli/chat_profile.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kContext = 8192;  // where --context is not given
// How long a Ctrl-C may go unnoticed while nothing is generated.
constexpr std::chrono::milliseconds kGlance(50);

EncodeOptions EncodingOf(Think think) {
  if (think == Think::kOff) {
    return {.thinking = ThinkingMode::kChat};
  }
  return {.thinking = ThinkingMode::kThinking, .effort = think == Think::kMax ? "max" : "high"};
}

}  // namespace

Result<std::unique_ptr<ConversationModel>> ConversationModel::Load(const ChatCommand& command,
                                                                   RankSession& ranks,
                                                                   Interrupt& interrupt, Log& log) {
  Result<TextModel> text_model = TextModel::Read(command.run.model);
  if (!text_model) return Unexpected(text_model.error());
  const Result<PromptProfile> profile = ChooseProfile(command.profile, text_model->directory, log);
  if (!profile) return Unexpected(profile.error());
  const Result<std::int64_t> n_context = ContextLength(command.run, kContext, text_model->config);
  if (!n_context) return Unexpected(n_context.error());
  SamplingParameters parameters =
      MakeSamplingParameters(command.sampling, text_model->generation, command.sampling.max_tokens);
  AddChatTokens(text_model->tokenizer, &parameters);
  const Status valid = Validate(parameters, text_model->config.vocab_size);
  if (!valid) return Unexpected(valid.error());
  std::unique_ptr<ConversationModel> model(
      new ConversationModel(*std::move(text_model), *profile, std::move(parameters), interrupt));
  Result<EngineSession> session = EngineSession::Load(model->text_model_,
                                                      {.run = command.run,
                                                       .engine = command.engine,
                                                       .ranks = ranks,
                                                       .max_context = *n_context,
                                                       .interrupt = &interrupt},
                                                      log);
  if (!session) return Unexpected(session.error());
  model->session_ = *std::move(session);
  return model;
}

ConversationModel::ConversationModel(TextModel text_model, PromptProfile profile,
                                     SamplingParameters parameters, Interrupt& interrupt)
    : text_model_(std::move(text_model)),
      profile_(profile),
      parameters_(std::move(parameters)),
      interrupt_(interrupt) {}

Result<std::vector<Token>> ConversationModel::EncodeMessages(const std::vector<Message>& messages,
                                                             Think think,
                                                             bool& starts_in_reasoning) const {
  const Result<EncodedPrompt> prompt =
      EncodeChat({.messages = messages}, EncodingOf(think), profile_);
  if (!prompt) return Unexpected(prompt.error());
  starts_in_reasoning = prompt->ends_in_reasoning;
  Result<std::vector<Token>> tokens = EncodePrompt(text_model_.tokenizer, *prompt);
  if (tokens && static_cast<std::int64_t>(tokens->size()) >= n_context()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the conversation has {} tokens and the context {}: nothing is left for an "
                     "answer (start anew with /reset, or with a larger --context)",
                     tokens->size(), n_context());
  }
  return tokens;
}

Result<ChatAnswer> ConversationModel::Answer(const std::vector<Message>& messages, Think think,
                                             const ShowDelta& show) {
  bool starts_in_reasoning = false;
  const Result<std::vector<Token>> prompt = EncodeMessages(messages, think, starts_in_reasoning);
  if (!prompt) return Unexpected(prompt.error());

  static_cast<void>(interrupt_.Take());  // a Ctrl-C from before the question
  Result<TokenStream> stream =
      session_->engine().Submit({.prompt = *prompt, .sampling = parameters_});
  if (!stream) return Unexpected(stream.error());
  AnswerStream text(starts_in_reasoning);
  StreamEvent event;
  ChatAnswer answer;
  for (std::optional<bool> next = true; !next || *next;) {
    next = stream->NextFor(kGlance, event);
    if (interrupt_.Take()) {
      answer.interrupted = true;
      stream->Cancel();
    }
    if (!next || !*next) {
      continue;
    }
    if (event.error) return Unexpected(*event.error);
    const Status shown = show(text.Feed(event.text));
    if (!shown) return Unexpected(shown.error());
  }
  const Status shown = show(text.Finish());
  if (!shown) return Unexpected(shown.error());
  answer.reasoning = text.reasoning();
  answer.content = text.content();
  answer.stats = stream->stats();
  return answer;
}

}  // namespace fathom::cli
