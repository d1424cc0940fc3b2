// Converts custom tools to functions. A custom tool takes one text, which may have a grammar. The
// model was trained on functions only, so it sees each as a function with one parameter.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/chat.h"

namespace fathom::chat {

// The parameter of a custom tool's function: the text of a call is a string in the arguments.
inline constexpr std::string_view kCustomInput = "input";

// The views need not outlive the calls below.
struct CustomTool {
  std::string_view name;
  std::string_view description;
  std::string_view syntax;      // syntax of the grammar: lark or regex; "" without one
  std::string_view definition;  // the grammar
};

// Returns the function. A regular expression applies to the whole text; other grammars are only
// shown in the description. `path`: ToolSpec::path.
ToolSpec CustomFunction(const CustomTool& tool, std::string path);

// Returns the arguments of a call with this text.
std::string CustomArguments(std::string_view input);

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
  // Returns the part of the whole text (CustomInput) that Feed has not returned.
  std::string_view Rest(std::string_view text) const;

 private:
  enum class State { kBefore, kInside, kBehind };

  State state_ = State::kBefore;
  std::string pending_;     // arguments that are not processed yet
  std::size_t n_told_ = 0;  // bytes of the text that Feed has returned
};

}  // namespace fathom::chat
