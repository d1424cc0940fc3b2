// ConversationModel: answers the conversations of `fathom chat`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/messages.h"
#include "cli/answer_form.h"
#include "cli/commands/commands.h"
#include "cli/model_defaults.h"
#include "cli/request_stats.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/load_display.h"
#include "cli/terminal/log.h"
#include "runtime/model_constraints.h"
#include "runtime/runtime.h"

namespace fathom::cli {

// The reasoning and the content that a piece of the answer added.
struct AnswerDelta {
  std::string reasoning;
  std::string content;
};

// Shows a piece of an answer; its error cancels the answer.
using ShowDelta = std::function<Status(const AnswerDelta&)>;

struct ChatAnswer {
  AnswerDelta text;          // the whole text
  bool interrupted = false;  // Ctrl-C ended the answer: the text is incomplete
  RequestStats stats;
};

// Answers conversations. The engine's prefix cache keeps the common beginning of the turns. Owns
// tokenizer, model and engine. One thread.
class ConversationModel {
 public:
  // `ranks` and `interrupt` must outlive the returned object.
  static Result<std::unique_ptr<ConversationModel>> Load(const ChatCommand& command,
                                                         RankProcess& ranks, Interrupt& interrupt,
                                                         Log& log);

  // Answers the last message. No `think`: the checkpoint's default. Ctrl-C ends the answer. Errors:
  // a conversation that does not fit into the context, text that is not UTF-8, an error of the
  // engine or of `show`.
  Result<ChatAnswer> Answer(const std::vector<Message>& messages, std::optional<Think> think,
                            const ShowDelta& show);

  double load_seconds() const { return runtime_->load_seconds(); }
  // Returns whether the checkpoint was trained to reason.
  bool thinks() const { return files_.generation.thinks; }
  std::int64_t n_context() const { return runtime_->n_context(); }

 private:
  explicit ConversationModel(ModelFiles files, Interrupt& interrupt)
      : files_(std::move(files)), constraints_(files_), interrupt_(interrupt) {}

  Result<std::vector<Token>> EncodeMessages(const std::vector<Message>& messages,
                                            std::optional<Think> think,
                                            bool& starts_in_reasoning) const;

  const ModelFiles files_;
  ModelConstraints constraints_;  // uses `files_`
  const CompileConstraint compile_ = [this](const ConstraintSpec& spec, const Caller& caller) {
    return constraints_.Compile(spec, caller);
  };
  Interrupt& interrupt_;
  PromptProfile profile_;
  std::string default_effort_;
  ContentForm form_;
  SamplingParameters parameters_;
  std::optional<LoadDisplay> display_;
  std::unique_ptr<Runtime> runtime_;  // uses the files and the display
};

}  // namespace fathom::cli
