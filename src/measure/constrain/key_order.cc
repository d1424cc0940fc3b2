#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"

namespace fathom::measure {
namespace {

// The most members and items that are tried.
constexpr int kMostKeyTrials = 20'000;
constexpr int kMostTrialsAlone = 2'000;  // for an object that insertion cannot order

// KeyOrderSearch: tries all orders of the keys of a value's objects until the constraint accepts
// one.
class KeyOrderSearch {
 public:
  // Tries at most `most_trials` members and items in all calls of Write. The constraint must
  // outlive the search.
  KeyOrderSearch(const Constraint& constraint, int most_trials)
      : constraint_(constraint), most_trials_(most_trials) {}

  // Appends the value to `text` in the first order that the constraint accepts, and advances
  // `state` past it. Returns false, and changes nothing, if there is no such order or the trials
  // are used up.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text) {
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

  bool is_used_up() const { return n_trials_ > most_trials_; }

 private:
  using TaskId = std::size_t;

  // The unwritten parts of an array or object, and the task that follows. A task never changes, so
  // that an earlier choice finds its tasks unchanged.
  struct Task {
    const JsonValue* container = nullptr;
    std::size_t n_written = 0;
    std::vector<char> is_written{};  // for each member of an object
    TaskId next = 0;
  };
  // A place between the members of an object, and the member to try there next.
  struct Choice {
    ConstraintState state;
    std::size_t text_size = 0;
    std::size_t n_tasks = 0;
    TaskId task = 0;
    std::size_t member = 0;
  };

  bool Append(const std::string& piece) {
    Result<ConstraintState> next = constraint_.AdvanceText(state_, piece);
    if (!next) return false;
    state_ = *std::move(next);
    text_ += piece;
    return true;
  }

  // Writes a scalar, or the beginning of a container; `next` follows.
  bool Begin(const JsonValue& value, TaskId next) {
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

  // Writes the next item or the end of a container. Returns false before the members of an object,
  // and adds a choice there.
  bool Step() {
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
    return (n_written == 0 || Append(",")) &&
           Begin(container.items()[n_written], tasks_.size() - 1);
  }

  // Advances to the next member at the latest choice that has one. Returns false if none is left.
  bool Choose() {
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

  const Constraint& constraint_;
  const int most_trials_;
  int n_trials_ = 0;
  ConstraintState state_;
  std::string text_;
  TaskId task_ = 0;
  std::vector<Task> tasks_;  // the first one represents the end of the value
  std::vector<Choice> choices_;
};

// Writes a value as the constraint accepts it, object by object. A key that does not fit after the
// keys before it is inserted among them; if that finds no order, all orders of the object are
// tried. Quick, but the first order found for an object is kept, even if the rest of the value
// needs another.
class KeyInsertion {
 public:
  explicit KeyInsertion(const Constraint& constraint)
      : constraint_(constraint), search_(constraint, kMostTrialsAlone) {}

  // Appends the value to `text` and advances `state` past it. Returns false if the value does not
  // fit.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (value.IsArray()) return WriteArray(value, state, text);
    if (!value.IsObject()) return Append(WriteJson(value), state, text);
    return WriteByInsertion(value, state, text) || search_.Write(value, state, text);
  }

 private:
  bool Append(const std::string& piece, ConstraintState& state, std::string& text) {
    Result<ConstraintState> next = constraint_.AdvanceText(state, piece);
    if (!next) return false;
    state = *std::move(next);
    text += piece;
    return true;
  }

  bool WriteArray(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (!Append("[", state, text)) return false;
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0 && !Append(",", state, text)) return false;
      if (!Write(value.items()[i], state, text)) return false;
    }
    return Append("]", state, text);
  }

  // A member that is written, with the state before it.
  struct Written {
    std::size_t member = 0;
    std::string text;  // text of the value
    ConstraintState before;
  };

  // Appends a member. Appends its value as `known` if the constraint accepts that text.
  bool WriteMember(const JsonValue& object, std::size_t member, bool is_first,
                   const std::string& known, Written& written, ConstraintState& state,
                   std::string& text) {
    if (++n_trials_ > kMostKeyTrials) return false;
    written = {.member = member, .text = known, .before = state};
    const std::string key = (is_first ? "" : ",") + WriteJson(JsonValue(object.key(member))) + ":";
    if (!Append(key, state, text)) return false;
    if (!known.empty() && Append(known, state, text)) return true;
    const std::size_t begin = text.size();
    if (!Write(object.items()[member], state, text)) return false;
    written.text = text.substr(begin);
    return true;
  }

  // Writes `member` before `order[place]`, and then the following members again. Changes nothing if
  // that does not fit.
  bool Insert(const JsonValue& object, std::size_t member, std::size_t place,
              std::vector<Written>& order, ConstraintState& state) {
    ConstraintState behind = place < order.size() ? order[place].before : state;
    std::string text;
    std::vector<Written> rest(order.size() - place + 1);
    if (!WriteMember(object, member, place == 0, "", rest[0], behind, text)) return false;
    for (std::size_t i = place; i < order.size(); ++i) {
      if (!WriteMember(object, order[i].member, false, order[i].text, rest[i - place + 1], behind,
                       text)) {
        return false;
      }
    }
    order.resize(place);
    std::move(rest.begin(), rest.end(), std::back_inserter(order));
    state = std::move(behind);
    return true;
  }

  bool WriteByInsertion(const JsonValue& object, ConstraintState& state, std::string& text) {
    std::vector<Written> order;
    ConstraintState behind = state;
    std::string members;
    if (!Append("{", behind, members)) return false;
    for (std::size_t i = 0; i < object.items().size(); ++i) {
      std::size_t place = order.size() + 1;
      do {
        if (place == 0) return false;
        --place;
      } while (!Insert(object, i, place, order, behind));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      members += (i > 0 ? "," : "") + WriteJson(JsonValue(object.key(order[i].member))) + ":" +
                 order[i].text;
    }
    if (!Append("}", behind, members)) return false;
    state = std::move(behind);
    text += members;
    return true;
  }

  const Constraint& constraint_;
  KeyOrderSearch search_;
  int n_trials_ = 0;
};

}  // namespace

OrderedText ConstraintChecker::Write(const JsonValue& value) const {
  OrderedText ordered;
  ConstraintState state = constraint_->Begin();
  KeyInsertion insertion(*constraint_);
  if (insertion.Write(value, state, ordered.text)) return ordered;
  ordered.text.clear();
  state = constraint_->Begin();
  KeyOrderSearch search(*constraint_, kMostKeyTrials);
  if (search.Write(value, state, ordered.text)) return ordered;
  return {.text = WriteJson(value), .is_decided = !search.is_used_up()};
}

}  // namespace fathom::measure
