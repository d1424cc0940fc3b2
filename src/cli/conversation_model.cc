#include "cli/conversation_model.h"

#include <chrono>
#include <utility>

#include "api/common/prompt_tokens.h"
#include "chat/encoder.h"
#include "chat/parser.h"
#include "chat/shown_request.h"

namespace fathom::cli {
namespace {

// The longest time until a Ctrl-C is noticed when no tokens arrive.
constexpr std::chrono::milliseconds kGlance(50);

EncodeOptions MakeEncodeOptions(std::optional<Think> think, const std::string& default_effort,
                                const GenerationConfig& config) {
  EncodeOptions options = {.effort = default_effort, .heads_each_turn = true};
  options.thinking = think ? ThinkingMode::kThinking : DefaultThinking(std::nullopt, config);
  if (think == Think::kOff) options.thinking = ThinkingMode::kChat;
  if (think == Think::kHigh) options.effort = "high";
  if (think == Think::kMax) options.effort = "max";
  return options;
}

// Parses the answer without tools: the markup of calls is text, so calls need no ids.
AnswerParser MakeParser(bool starts_in_reasoning) {
  return AnswerParser({.starts_in_reasoning = starts_in_reasoning,
                       .tools = ToolSchemas(),
                       .random_bits = [] { return std::uint64_t{0}; }});
}

// Returns the text of the events, and adds it to `all`.
AnswerDelta Collect(const std::vector<AnswerEvent>& events, AnswerDelta& all) {
  AnswerDelta delta;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kReasoningDelta) {
      delta.reasoning += event.text;
    } else if (event.kind == AnswerEvent::Kind::kContentDelta) {
      delta.content += event.text;
    }
  }
  all.reasoning += delta.reasoning;
  all.content += delta.content;
  return delta;
}

}  // namespace

Result<std::unique_ptr<ConversationModel>> ConversationModel::Load(const ChatCommand& command,
                                                                   RankProcess& ranks,
                                                                   Interrupt& interrupt, Log& log) {
  Result<ModelFiles> files = ModelFiles::Read(command.run.model);
  if (!files) return Unexpected(files.error());
  const Result<PromptProfile> profile = ChooseProfile(command.profile, files->directory, log);
  if (!profile) return Unexpected(profile.error());
  const Result<std::int64_t> n_context = ContextLength(command.run, kDefaultContext, files->config);
  if (!n_context) return Unexpected(n_context.error());
  std::unique_ptr<ConversationModel> model(new ConversationModel(*std::move(files), interrupt));
  model->profile_ = *profile;
  model->default_effort_ = command.default_effort;
  model->parameters_ = MakeSamplingParameters(command.sampling, model->files_.generation);
  AddChatTokens(model->files_.tokenizer, &model->parameters_);
  const Status valid = Validate(model->parameters_, model->files_.config.vocab_size);
  if (!valid) return Unexpected(valid.error());
  Result<ContentForm> form = ReadAnswerForm(command.form);
  if (!form) return Unexpected(form.error());
  model->form_ = *std::move(form);
  const auto constraint = CompileAnswerForm(model->form_, model->compile_, log);
  if (!constraint) return Unexpected(constraint.error());
  model->display_.emplace(model->files_.directory, log, &interrupt);
  RuntimeOptions options = {.run = command.run,
                            .serving = command.engine,
                            .ranks = &ranks,
                            .events = model->display_->events()};
  options.run.n_context = *n_context;
  Result<std::unique_ptr<Runtime>> runtime = Runtime::Load(model->files_, options);
  if (!runtime) return Unexpected(runtime.error());
  model->runtime_ = *std::move(runtime);
  return model;
}

Result<std::vector<Token>> ConversationModel::EncodeMessages(const std::vector<Message>& messages,
                                                             std::optional<Think> think,
                                                             bool& starts_in_reasoning) const {
  ChatRequest request = {.messages = messages};
  ShowAsConverter(&request);
  const Result<EncodedPrompt> prompt = EncodeChat(
      std::move(request), MakeEncodeOptions(think, default_effort_, files_.generation), profile_);
  if (!prompt) return Unexpected(prompt.error());
  starts_in_reasoning = prompt->start.in_reasoning;
  Result<std::vector<Token>> tokens = EncodePrompt(files_.tokenizer, *prompt);
  if (tokens && static_cast<std::int64_t>(tokens->size()) >= n_context()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "the conversation has {} tokens and the context {}: nothing is left for an "
                     "answer (start anew with /reset, or with a larger --context)",
                     tokens->size(), n_context());
  }
  return tokens;
}

Result<ChatAnswer> ConversationModel::Answer(const std::vector<Message>& messages,
                                             std::optional<Think> think, const ShowDelta& show) {
  bool starts_in_reasoning = false;
  const Result<std::vector<Token>> prompt = EncodeMessages(messages, think, starts_in_reasoning);
  if (!prompt) return Unexpected(prompt.error());
  const auto constraint = CompileAnswerForm(form_, compile_, starts_in_reasoning);
  if (!constraint) return Unexpected(constraint.error());

  static_cast<void>(interrupt_.Take());  // a Ctrl-C from before the question
  Request request = {.prompt = *prompt, .sampling = parameters_};
  request.sampling.constraint = *constraint;
  Result<TokenStream> stream = runtime_->engine().Submit(std::move(request));
  if (!stream) return Unexpected(stream.error());
  AnswerParser parser = MakeParser(starts_in_reasoning);
  StreamEvent event;
  ChatAnswer answer;
  for (std::optional<bool> next = true; !next || *next;) {
    next = stream->NextFor(kGlance, event);
    if (interrupt_.Take()) {
      answer.interrupted = true;
      stream->Cancel();
    }
    if (!next || !*next) continue;
    if (event.error) return Unexpected(*event.error);
    const Status shown = show(Collect(parser.Feed(event.text), answer.text));
    if (!shown) return Unexpected(shown.error());
  }
  const Status shown = show(Collect(parser.Finish(AnswerEnd::kStop), answer.text));
  if (!shown) return Unexpected(shown.error());
  answer.stats = stream->stats();
  return answer;
}

}  // namespace fathom::cli
