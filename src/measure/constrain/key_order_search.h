// KeyOrderSearch: tries all orders of the keys of a value's objects, until the constraint takes
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

  // Appends the value to `text` in the first order that the constraint takes, and moves `state`
  // to its end. False, and nothing is changed, if there is no such order or the trials are used up.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text);

  bool is_used_up() const { return n_trials_ > most_trials_; }

 private:
  using TaskId = std::size_t;

  // Parts of an array or object that are still to be written, and then another task. A task never
  // changes, so that an earlier choice finds the tasks that it left.
  struct Task {
    const JsonValue* container = nullptr;
    std::size_t n_written = 0;
    std::vector<char> is_written{};  // for each member of an object
    TaskId next = 0;
  };
  // A place between the members of an object, and the member that is tried there next.
  struct Choice {
    ConstraintState state;
    std::size_t text_size = 0;
    std::size_t n_tasks = 0;
    TaskId task = 0;
    std::size_t member = 0;
  };

  bool Append(const std::string& piece);
  // Writes a scalar, or the beginning of a container; then comes `next`.
  bool Begin(const JsonValue& value, TaskId next);
  // Writes the next item or the end of a container. False for the members of an object, between
  // which it leaves a choice.
  bool Step();
  // Takes the next member at the latest choice that has one. False if none is left.
  bool Choose();

  const Constraint& constraint_;
  const int most_trials_;
  int n_trials_ = 0;
  ConstraintState state_;
  std::string text_;
  TaskId task_ = 0;
  std::vector<Task> tasks_;  // the first one stands for the end of the value
  std::vector<Choice> choices_;
};

}  // namespace fathom
