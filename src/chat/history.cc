#include "chat/history.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "chat/literals.h"
#include "chat/messages.h"

namespace fathom::chat {
namespace {

void MoveAll(std::vector<Message>* from, std::vector<Message>* to) {
  std::move(from->begin(), from->end(), std::back_inserter(*to));
  from->clear();
}

// Arranges one message after another.
class Arranger {
 public:
  void Add(Message message) {
    switch (message.role) {
      case Role::kSystem:
        AddSystem(std::move(message));
        break;
      case Role::kTool:
        results_.push_back(std::move(message));
        break;
      case Role::kAssistant:
        AddAssistant(std::move(message));
        break;
      default:
        others_.push_back(std::move(message));
    }
  }

  std::vector<Message> Take() {
    EndUserTurn();
    if (head_) turns_.insert(turns_.begin(), *std::move(head_));
    return std::move(turns_);
  }

 private:
  void AddSystem(Message message) {
    const bool is_leading = turns_.empty() && results_.empty() && others_.empty();
    const bool has_appendices = !message.tools.empty() || message.response_format;
    if ((is_leading || has_appendices) && !head_) head_ = Message{.role = Role::kSystem};
    if (has_appendices) AddAppendices(&message);
    if (is_leading) return AppendParagraph(message.content, &head_->content);
    if (message.content.empty()) return;
    std::string text(kSystemReminderOpen);
    text.append(message.content).append(kSystemReminderClose);
    others_.push_back({.role = Role::kUser, .content = std::move(text)});
  }

  void AddAppendices(Message* message) {
    std::move(message->tools.begin(), message->tools.end(), std::back_inserter(head_->tools));
    if (message->response_format) head_->response_format = std::move(message->response_format);
  }

  void AddAssistant(Message message) {
    const bool says_nothing =
        message.content.empty() && message.tool_calls.empty() && !message.leave_open;
    if (answers_calls_ && says_nothing) {
      others_.push_back(std::move(message));
      return;
    }
    EndUserTurn();
    answers_calls_ = !message.tool_calls.empty();
    turns_.push_back(std::move(message));
  }

  void EndUserTurn() {
    MoveAll(&results_, &turns_);
    MoveAll(&others_, &turns_);
  }

  std::optional<Message> head_;
  std::vector<Message> turns_;    // arranged
  std::vector<Message> results_;  // results after turns_, until the next turn of the assistant
  std::vector<Message> others_;
  bool answers_calls_ = false;  // the last turn of the assistant has calls
};

}  // namespace

void ArrangeHistory(std::vector<Message>* messages) {
  Arranger arranger;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    Message& message = (*messages)[i];
    if (i + 1 < messages->size()) message.leave_open = false;
    arranger.Add(std::move(message));
  }
  *messages = arranger.Take();
}

}  // namespace fathom::chat
