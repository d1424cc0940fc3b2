#include "chat/named_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>

namespace fathom::chat {
namespace {

bool IsNamedResult(const Message& message) {
  return message.role == Role::kTool && message.tool_call_id.empty() && !message.tool_name.empty();
}

// The calls of one turn that no result has answered yet. `calls` must outlive this object.
class OpenCalls {
 public:
  OpenCalls() = default;
  explicit OpenCalls(std::vector<ToolCall>& calls) : calls_(calls), next_(calls.size()) {
    for (std::size_t i = calls.size(); i-- > 0;) {
      std::size_t& first = first_.try_emplace(calls[i].name, calls.size()).first->second;
      next_[i] = first;
      first = i;
    }
  }

  void Answer(const std::string& id) { answered_.insert(id); }

  // Returns the id of the first open call with that name and marks it as answered; "" if there is
  // none.
  std::string AnswerFirst(const std::string& name) {
    const auto first = first_.find(name);
    if (first == first_.end()) return "";
    while (first->second < calls_.size()) {
      const std::size_t i = first->second;
      first->second = next_[i];
      std::string& id = calls_[i].id;
      if (id.empty()) id = fmt::format("call {}", i);
      if (!answered_.contains(id)) return id;
    }
    return "";
  }

 private:
  std::span<ToolCall> calls_;
  // Trees, because clients choose names and ids: a hash table is slow when they collide.
  std::map<std::string, std::size_t> first_;  // by name: the first call that may be open
  std::vector<std::size_t> next_;             // by call: the next call with its name
  std::set<std::string> answered_;            // ids of answered calls
};

}  // namespace

void PairNamedResults(std::vector<Message>* messages) {
  if (std::none_of(messages->begin(), messages->end(), IsNamedResult)) return;
  OpenCalls open;
  for (Message& message : *messages) {
    if (message.role == Role::kAssistant && !message.tool_calls.empty()) {
      open = OpenCalls(message.tool_calls);
    } else if (IsNamedResult(message)) {
      message.tool_call_id = open.AnswerFirst(message.tool_name);
    } else if (message.role == Role::kTool) {
      open.Answer(message.tool_call_id);
    }
  }
}

}  // namespace fathom::chat
