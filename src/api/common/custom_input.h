// Finds the text of a call of a custom tool in the arguments of its function (chat/custom_tool.h).
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Returns the value of the only parameter. `arguments`: all of them, a JSON object; if they were
// cut, the text ends at the cut.
std::string CustomInput(std::string_view arguments);

// Finds this text while the arguments arrive. One call; one thread.
class CustomInputStream {
 public:
  // Takes the next piece of the arguments, as in AnswerEvent. Returns the whole characters that it
  // adds to the text. The joined results are the beginning of the text that CustomInput finds in
  // the end, and all of it if the parameter comes first and is a string. Otherwise nothing is
  // certain before the end.
  std::string Feed(std::string_view arguments);

 private:
  enum class State { kBefore, kInside, kBehind };

  State state_ = State::kBefore;
  std::string pending_;  // arguments that are not processed yet
};

}  // namespace fathom
