// Converts custom tools to functions. A custom tool takes one text, which may have a grammar. The
// model was trained on functions only, so it sees each as a function with one parameter.
#pragma once

#include <string>
#include <string_view>

#include "chat/chat.h"

namespace fathom {

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

}  // namespace fathom
