// The text of a call of a custom tool, from the arguments of its function (chat/custom_tool.h).
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Returns the value of the one parameter. `arguments`: all of them, a JSON object; where they were
// cut, the text ends there, too.
std::string CustomInput(std::string_view arguments);

// Does the same while the arguments arrive. One call; one thread.
class CustomInputStream {
 public:
  // Takes the next piece of the arguments, as in AnswerEvent. Returns the whole characters that it
  // adds to the text; joined, they begin what CustomInput finds in the end, and are all of it if
  // the parameter comes first and is written as a string. Otherwise nothing is certain before the
  // end.
  std::string Feed(std::string_view arguments);

 private:
  enum class State { kBefore, kInside, kBehind };

  State state_ = State::kBefore;
  std::string pending_;  // arguments that are not processed yet
};

}  // namespace fathom
