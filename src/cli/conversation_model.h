// ConversationModel: messages in, an answer out; the model keeps what the turns share.
#ifndef FATHOM_CLI_CONVERSATION_MODEL_H_
#define FATHOM_CLI_CONVERSATION_MODEL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/answer_stream.h"
#include "cli/interrupt.h"
#include "cli/log.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/text_model.h"
#include "prompt/chat.h"
#include "prompt/profile.h"

namespace fathom::cli {

// Shows a piece of an answer; its error cancels the answer.
using ShowDelta = std::function<Status(const AnswerDelta&)>;

struct ChatAnswer {
  std::string reasoning;
  std::string content;
  bool interrupted = false;  // by Ctrl-C: the text is what there was until then
  GenerationResult generation;
};

// Owns tokenizer and model. One thread.
class ConversationModel {
 public:
  // `interrupt` must outlive it.
  static Result<std::unique_ptr<ConversationModel>> Load(const ChatCommand& command,
                                                         Interrupt& interrupt, Log& log);
  ~ConversationModel();

  // Answers the last message. Ctrl-C ends the answer. Errors: a conversation that does not fit into
  // the context, text that is not UTF-8, what `show` returned.
  Result<ChatAnswer> Answer(const std::vector<Message>& messages, Think think,
                            const ShowDelta& show);

  double load_seconds() const { return session_.load_seconds(); }
  std::int64_t n_context() const { return session_.model().options().max_context; }
  // Positions that the conversation takes up so far.
  std::int64_t n_cached() const;

 private:
  class WatchedModel;

  ConversationModel(TextModel text_model, Session session, PromptProfile profile,
                    SamplingParameters parameters, Interrupt& interrupt);
  Result<std::vector<Token>> EncodeMessages(const std::vector<Message>& messages, Think think,
                                            bool& starts_in_reasoning) const;

  const TextModel text_model_;
  Session session_;
  const PromptProfile profile_;
  const SamplingParameters parameters_;
  Interrupt& interrupt_;
  std::atomic<bool> cancel_ = false;
  std::unique_ptr<WatchedModel> watched_;
  std::optional<Generator> generator_;
};

}  // namespace fathom::cli

#endif  // FATHOM_CLI_CONVERSATION_MODEL_H_
