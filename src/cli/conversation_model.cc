#include "cli/conversation_model.h"

#include <algorithm>
#include <utility>

#include "cli/chat_profile.h"
#include "engine/model_adapter.h"
#include "prompt/encoder.h"
#include "server/prompt_tokens.h"

namespace fathom::cli {
namespace {

constexpr std::int64_t kContext = 8192;  // where --context is not given
constexpr std::int64_t kBatchTokens = 128;

EncodeOptions EncodingOf(Think think) {
  if (think == Think::kOff) {
    return {.thinking = ThinkingMode::kChat};
  }
  return {.thinking = ThinkingMode::kThinking, .effort = think == Think::kMax ? "max" : "high"};
}

}  // namespace

// The model, with a look at the keyboard before every step: a long prompt is stopped between two
// of its chunks.
class ConversationModel::WatchedModel final : public LanguageModel {
 public:
  WatchedModel(Model& model, Interrupt& interrupt, std::atomic<bool>& cancel)
      : model_(model), interrupt_(interrupt), cancel_(cancel) {}

  ModelLimits Limits() const override { return model_.Limits(); }
  Status Forward(const Batch& batch) override {
    if (interrupt_.Take()) {
      cancel_ = true;
    }
    return model_.Forward(batch);
  }
  Matrix<const float> Logits(std::span<const std::int32_t> rows) override {
    return model_.Logits(rows);
  }

 private:
  ModelAdapter model_;
  Interrupt& interrupt_;
  std::atomic<bool>& cancel_;
};

Result<std::unique_ptr<ConversationModel>> ConversationModel::Load(const ChatCommand& command,
                                                                   Interrupt& interrupt, Log& log) {
  Result<TextModel> text_model = TextModel::Read(command.run.model);
  if (!text_model) return Unexpected(text_model.error());
  const Result<PromptProfile> profile = ChooseProfile(command.profile, text_model->directory, log);
  if (!profile) return Unexpected(profile.error());
  const Result<std::int64_t> n_context = ContextLength(command.run, kContext, text_model->config);
  if (!n_context) return Unexpected(n_context.error());
  SamplingParameters parameters =
      MakeSamplingParameters(command.sampling, text_model->generation, command.sampling.max_tokens);
  const Status valid = Validate(parameters, text_model->config.vocab_size);
  if (!valid) return Unexpected(valid.error());
  Result<Session> session = Session::Load(text_model->directory, command.run,
                                          {.max_sequences = 1,
                                           .max_context = *n_context,
                                           .max_batch_tokens = std::min(*n_context, kBatchTokens),
                                           .max_logit_rows = 1},
                                          &interrupt, log);
  if (!session) return Unexpected(session.error());
  return std::unique_ptr<ConversationModel>(new ConversationModel(
      *std::move(text_model), *std::move(session), *profile, std::move(parameters), interrupt));
}

ConversationModel::ConversationModel(TextModel text_model, Session session, PromptProfile profile,
                                     SamplingParameters parameters, Interrupt& interrupt)
    : text_model_(std::move(text_model)),
      session_(std::move(session)),
      profile_(profile),
      parameters_(std::move(parameters)),
      interrupt_(interrupt),
      watched_(std::make_unique<WatchedModel>(session_.model(), interrupt, cancel_)) {
  generator_.emplace(*watched_, MakeGeneratorOptions(text_model_));
}

ConversationModel::~ConversationModel() = default;

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

  AnswerStream stream(starts_in_reasoning);
  Status shown;
  static_cast<void>(interrupt_.Take());  // a Ctrl-C from before the question
  cancel_ = false;
  Result<GenerationResult> generation =
      generator_->Generate(*prompt, parameters_,
                           {.on_token =
                                [&](const TokenEvent& event) {
                                  shown = show(stream.Feed(event.text));
                                  if (interrupt_.Take()) {
                                    cancel_ = true;
                                  }
                                  return shown && !cancel_;
                                },
                            .cancel = &cancel_});
  if (!shown) return Unexpected(shown.error());
  if (!generation) return Unexpected(generation.error());
  shown = show(stream.Finish());
  if (!shown) return Unexpected(shown.error());
  return ChatAnswer{.reasoning = stream.reasoning(),
                    .content = stream.content(),
                    .interrupted = cancel_,
                    .generation = *std::move(generation)};
}

std::int64_t ConversationModel::n_cached() const {
  return static_cast<std::int64_t>(generator_->cached_tokens().size());
}

}  // namespace fathom::cli
