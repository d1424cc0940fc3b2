// The text of a custom tool's call. The model knows a function with one parameter
// (responses_tools.h), so it stands as a string in the arguments.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// The value that the model wrote for the one parameter. `arguments`: all of them, a JSON object.
std::string CustomInput(std::string_view arguments);

// CustomInput for arguments that arrive in pieces. One call; one thread.
class CustomInputStream {
 public:
  // The next piece of the arguments, as AnswerEvent has it. Returns what it adds to the text, whole
  // characters; joined, the beginning of what CustomInput finds in the end. That is all of it where
  // the parameter is written as a string and first; else nothing is certain before the end.
  std::string Feed(std::string_view arguments);

 private:
  enum class State { kBefore, kInside, kBehind };

  State state_ = State::kBefore;
  std::string pending_;  // arguments not yet parsed
};

}  // namespace fathom
