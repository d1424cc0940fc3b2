// ToolSchemas: the names and parameter types of a request's tools, for the parser of answers.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "json/json_value.h"

namespace fathom::chat {

enum class ParameterType {
  kUnknown,  // no schema, or one that allows several types
  kString,
  kOther,
};

// Constant after construction; may be read from many threads.
class ToolSchemas {
 public:
  // Has no tools at all.
  ToolSchemas() = default;

  // Error (kInvalidArgument): a function object that is not JSON.
  static Result<ToolSchemas> Make(std::span<const ToolSpec> tools);

  bool empty() const { return tools_.empty(); }
  bool Knows(std::string_view tool) const { return tools_.find(tool) != tools_.end(); }

  ParameterType FindType(std::string_view tool, std::string_view parameter) const;

  // Returns true if the tool lists its parameters and this one is not in the list. Returns false
  // for strict tools: their calls have the parameters that the schema allows, under any names.
  bool Lacks(std::string_view tool, std::string_view parameter) const;

  // Returns true if the tool is strict and requires a parameter that is not in the arguments (an
  // object).
  bool RequiresMore(std::string_view tool, const JsonValue& arguments) const;

 private:
  using Properties = std::map<std::string, ParameterType, std::less<>>;

  struct Tool {
    std::optional<Properties> listed;  // nullopt: the schema does not list the parameters
    bool strict = false;
    std::vector<std::string> required;  // required parameters of a strict tool
  };

  std::map<std::string, Tool, std::less<>> tools_;
};

}  // namespace fathom::chat
