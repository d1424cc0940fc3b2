// ConversationModel: messages in, an answer out; the engine's prefix cache keeps what the turns
// share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "chat/profile.h"
#include "cli/answer_stream.h"
#include "cli/engine_session.h"
#include "cli/options/options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/log.h"
#include "cli/text_model.h"

namespace fathom::cli {

// Shows a piece of an answer; its error cancels the answer.
using ShowDelta = std::function<Status(const AnswerDelta&)>;

struct ChatAnswer {
  std::string reasoning;
  std::string content;
  bool interrupted = false;  // by Ctrl-C: the text is what there was until then
  RequestStats stats;
};

// Owns tokenizer, model and engine. One thread.
class ConversationModel {
 public:
  // `ranks` and `interrupt` must outlive it.
  static Result<std::unique_ptr<ConversationModel>> Load(const ChatCommand& command,
                                                         RankSession& ranks, Interrupt& interrupt,
                                                         Log& log);

  // Answers the last message. Ctrl-C ends the answer. Errors: a conversation that does not fit into
  // the context, text that is not UTF-8, what the engine or `show` returned.
  Result<ChatAnswer> Answer(const std::vector<Message>& messages, Think think,
                            const ShowDelta& show);

  double load_seconds() const { return session_->load_seconds(); }
  std::int64_t n_context() const { return session_->n_context(); }

 private:
  ConversationModel(TextModel text_model, PromptProfile profile, SamplingParameters parameters,
                    Interrupt& interrupt);
  Result<std::vector<Token>> EncodeMessages(const std::vector<Message>& messages, Think think,
                                            bool& starts_in_reasoning) const;

  const TextModel text_model_;
  const PromptProfile profile_;
  const SamplingParameters parameters_;
  Interrupt& interrupt_;
  std::optional<EngineSession> session_;  // uses the text model
};

}  // namespace fathom::cli
