// KeyOrderSearch: tries all orders of the keys of a value's objects until the constraint accepts
// one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "json/json_value.h"

namespace fathom {

class KeyOrderSearch {
 public:
  // Tries at most `most_trials` members and items in all calls of Write. The constraint must
  // outlive the search.
  KeyOrderSearch(const Constraint& constraint, int most_trials)
      : constraint_(constraint), most_trials_(most_trials) {}

  // Appends the value to `text` in the first order that the constraint accepts, and advances
  // `state` past it. Returns false, and changes nothing, if there is no such order or the trials
  // are used up.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text);

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

  bool Append(const std::string& piece);
  // Writes a scalar, or the beginning of a container; `next` follows.
  bool Begin(const JsonValue& value, TaskId next);
  // Writes the next item or the end of a container. Returns false before the members of an object,
  // and adds a choice there.
  bool Step();
  // Advances to the next member at the latest choice that has one. Returns false if none is left.
  bool Choose();

  const Constraint& constraint_;
  const int most_trials_;
  int n_trials_ = 0;
  ConstraintState state_;
  std::string text_;
  TaskId task_ = 0;
  std::vector<Task> tasks_;  // the first one represents the end of the value
  std::vector<Choice> choices_;
};

}  // namespace fathom
