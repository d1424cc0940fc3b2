#include "measure/constrain/key_order_search.h"

#include <utility>

#include "json/json_writer.h"

namespace fathom {

bool KeyOrderSearch::Append(const std::string& piece) {
  Result<ConstraintState> next = constraint_.AdvanceText(state_, piece);
  if (!next) return false;
  state_ = *std::move(next);
  text_ += piece;
  return true;
}

bool KeyOrderSearch::Begin(const JsonValue& value, TaskId next) {
  if (!value.IsArray() && !value.IsObject()) {
    task_ = next;
    return Append(WriteJson(value));
  }
  Task task = {.container = &value, .next = next};
  if (value.IsObject()) task.is_written.resize(value.items().size());
  task_ = tasks_.size();
  tasks_.push_back(std::move(task));
  return Append(value.IsArray() ? "[" : "{");
}

bool KeyOrderSearch::Step() {
  const JsonValue& container = *tasks_[task_].container;
  const std::size_t n_written = tasks_[task_].n_written;
  if (n_written == container.items().size()) {
    task_ = tasks_[task_].next;
    return Append(container.IsArray() ? "]" : "}");
  }
  if (container.IsObject()) {
    choices_.push_back({state_, text_.size(), tasks_.size(), task_, 0});
    return false;
  }
  if (++n_trials_ > most_trials_) return false;
  tasks_.push_back(
      {.container = &container, .n_written = n_written + 1, .next = tasks_[task_].next});
  return (n_written == 0 || Append(",")) && Begin(container.items()[n_written], tasks_.size() - 1);
}

bool KeyOrderSearch::Choose() {
  while (!choices_.empty()) {
    Choice& choice = choices_.back();
    state_ = choice.state;
    text_.resize(choice.text_size);
    tasks_.resize(choice.n_tasks);
    Task rest = tasks_[choice.task];
    while (choice.member < rest.is_written.size() && rest.is_written[choice.member] != 0) {
      ++choice.member;
    }
    if (choice.member == rest.is_written.size()) {
      choices_.pop_back();
      continue;
    }
    if (++n_trials_ > most_trials_) return false;
    const std::size_t member = choice.member++;
    const JsonValue& object = *rest.container;
    const std::string key =
        (rest.n_written > 0 ? "," : "") + WriteJson(JsonValue(object.key(member))) + ":";
    rest.is_written[member] = 1;
    ++rest.n_written;
    tasks_.push_back(std::move(rest));
    if (Append(key) && Begin(object.items()[member], tasks_.size() - 1)) return true;
  }
  return false;
}

bool KeyOrderSearch::Write(const JsonValue& value, ConstraintState& state, std::string& text) {
  state_ = state;
  text_.clear();
  choices_.clear();
  tasks_.assign(1, Task());
  bool fits = Begin(value, 0);
  while (!fits || task_ != 0) {
    fits = (fits && Step()) || Choose();
    if (!fits) return false;
  }
  state = state_;
  text += text_;
  return true;
}

}  // namespace fathom
