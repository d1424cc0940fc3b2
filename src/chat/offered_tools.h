// OfferedTools: tracks the tools of a request while its messages are read, which find tools, add
// new ones and remove some. docs/spec/encoding.md section 6.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat.h"

namespace fathom::chat {

// Call its functions in the order of the messages. Used by one thread.
class OfferedTools {
 public:
  // Deferred tools are not available before a message refers to them.
  explicit OfferedTools(std::vector<ToolSpec> tools);

  // Makes a tool available, and returns the text that replaces the reference. The first reference
  // becomes the definition of a deferred tool; any other becomes the name, so that texts grow no
  // faster than the request.
  std::string Refer(std::string_view name);
  // Does the same for a tool that the message itself defines. It replaces a tool with the same
  // name.
  std::string Add(ToolSpec tool);
  // The prompt still shows the tool at its place, but the model may not call it any more.
  void Remove(std::string_view name);

  const std::vector<ToolSpec>& tools() const { return tools_; }

 private:
  std::vector<ToolSpec> tools_;
  std::vector<bool> is_shown_;                             // for each tool: its definition is shown
  std::map<std::string, std::size_t, std::less<>> index_;  // by name
};

}  // namespace fathom::chat
