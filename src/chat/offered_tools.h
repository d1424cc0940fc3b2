// OfferedTools: the tools of a request while its messages are read, which find tools, add new ones
// and take some away. docs/spec/encoding.md section 6.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat.h"

namespace fathom {

// Feed it in the order of the messages. Used by one thread.
class OfferedTools {
 public:
  // Deferred tools are not available before a message refers to them.
  explicit OfferedTools(std::vector<ToolSpec> tools);

  // Makes a tool available, and returns the text in place of the reference: the definition of a
  // deferred tool where it is the first reference, so that texts grow no faster than the request;
  // else the name.
  std::string Refer(std::string_view name);
  // Likewise for a tool that the message itself defines. It replaces a tool of the same name.
  std::string Add(ToolSpec tool);
  // The prompt still shows the tool where it did, and the model may not call it any more.
  void Remove(std::string_view name);

  const std::vector<ToolSpec>& tools() const { return tools_; }

 private:
  std::vector<ToolSpec> tools_;
  std::vector<bool> is_shown_;                             // the definition of each tool
  std::map<std::string, std::size_t, std::less<>> index_;  // by name
};

}  // namespace fathom
