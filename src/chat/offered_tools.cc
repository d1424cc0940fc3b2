#include "chat/offered_tools.h"

#include <utility>

#include "chat/shown_request.h"

namespace fathom::chat {

OfferedTools::OfferedTools(std::vector<ToolSpec> tools)
    : tools_(std::move(tools)), is_shown_(tools_.size()) {
  for (std::size_t i = 0; i < tools_.size(); ++i) {
    index_.emplace(tools_[i].name, i);
    if (tools_[i].is_deferred) tools_[i].is_available = false;
    is_shown_[i] = !tools_[i].is_deferred;
  }
}

std::string OfferedTools::Refer(std::string_view name) {
  const auto found = index_.find(name);
  if (found == index_.end()) return std::string(name);
  ToolSpec& tool = tools_[found->second];
  tool.is_available = true;
  if (is_shown_[found->second]) return std::string(name);
  is_shown_[found->second] = true;
  return ToolDefinition(tool.function_json).value_or(std::string(name));
}

std::string OfferedTools::Add(ToolSpec tool) {
  std::string name = tool.name;
  const auto found = index_.find(name);
  if (found != index_.end()) {
    ToolSpec& known = tools_[found->second];
    if (known.function_json == tool.function_json) return Refer(name);
    known.is_available = false;
  }
  tool.is_deferred = true;
  index_[name] = tools_.size();
  tools_.push_back(std::move(tool));
  is_shown_.push_back(false);
  return Refer(name);
}

void OfferedTools::Remove(std::string_view name) {
  const auto found = index_.find(name);
  if (found != index_.end()) tools_[found->second].is_available = false;
}

}  // namespace fathom::chat
