#include "chat/conversation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace fathom::chat {
namespace {

// A tree, because clients choose the ids: a hash table is slow when they collide.
using CallOrder = std::map<std::string, std::size_t>;

bool IsToolResult(const ContentBlock& block) {
  return block.kind == ContentBlock::Kind::kToolResult;
}

// Moves tool messages into the user turn before them, or into a new one; merges consecutive user
// messages unless the first asks for a task.
std::vector<Message> MergeToolMessages(std::vector<Message> messages) {
  std::vector<Message> merged;
  for (Message& message : messages) {
    Message* last = merged.empty() || merged.back().role != Role::kUser ? nullptr : &merged.back();
    if (message.role == Role::kTool) {
      if (last == nullptr) last = &merged.emplace_back(Message{.role = Role::kUser});
      last->blocks.push_back({.kind = ContentBlock::Kind::kToolResult,
                              .text = std::move(message.content),
                              .tool_call_id = std::move(message.tool_call_id)});
    } else if (message.role == Role::kUser) {
      if (message.blocks.empty()) message.blocks.push_back({.text = std::move(message.content)});
      if (last == nullptr || last->task) {
        merged.push_back({.role = Role::kUser,
                          .blocks = std::move(message.blocks),
                          .task = std::move(message.task),
                          .leave_open = message.leave_open});
      } else {
        std::move(message.blocks.begin(), message.blocks.end(), std::back_inserter(last->blocks));
      }
    } else {
      merged.push_back(std::move(message));
    }
  }
  return merged;
}

CallOrder OrderOfCalls(const std::vector<ToolCall>& calls) {
  CallOrder order;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].id.empty()) order[calls[i].id] = i;
  }
  return order;
}

// Reorders tool results only among their own places; text between them stays in place.
void SortResults(const CallOrder& order, std::vector<ContentBlock>* blocks) {
  std::vector<ContentBlock> results;
  std::copy_if(blocks->begin(), blocks->end(), std::back_inserter(results), IsToolResult);
  if (results.size() < 2 || order.empty()) return;
  const auto place = [&](const ContentBlock& block) {
    const auto found = order.find(block.tool_call_id);
    return found == order.end() ? 0 : found->second;
  };
  std::stable_sort(
      results.begin(), results.end(),
      [&](const ContentBlock& a, const ContentBlock& b) { return place(a) < place(b); });
  std::size_t next = 0;
  for (ContentBlock& block : *blocks) {
    if (IsToolResult(block)) block = std::move(results[next++]);
  }
}

// `order` is the order of the last assistant turn with calls before `messages`, and is updated.
void SortToolResults(CallOrder* order, std::vector<Message>* messages) {
  for (Message& message : *messages) {
    if (message.role == Role::kAssistant && !message.tool_calls.empty()) {
      *order = OrderOfCalls(message.tool_calls);
    } else if (message.role == Role::kUser) {
      SortResults(*order, &message.blocks);
    }
  }
}

std::ptrdiff_t LastUser(const std::vector<Turn>& turns) {
  for (std::ptrdiff_t i = std::ssize(turns) - 1; i >= 0; --i) {
    const Role role = turns[static_cast<std::size_t>(i)].message.role;
    if (role == Role::kUser || role == Role::kDeveloper) return i;
  }
  return -1;
}

// Removes the reasoning of assistants and the developer turns before the last user turn.
std::vector<Turn> DropReasoning(std::vector<Turn> turns) {
  const std::ptrdiff_t last_user = LastUser(turns);
  std::vector<Turn> kept;
  for (std::ptrdiff_t i = 0; i < std::ssize(turns); ++i) {
    Turn& turn = turns[static_cast<std::size_t>(i)];
    if (i < last_user) {
      if (turn.message.role == Role::kDeveloper) continue;
      if (turn.message.role == Role::kAssistant) turn.message.reasoning_content.clear();
    }
    kept.push_back(std::move(turn));
  }
  return kept;
}

}  // namespace

Conversation PrepareConversation(const ChatRequest& request, const EncodeOptions& options) {
  std::vector<Message> context = MergeToolMessages(request.context);
  std::vector<Message> messages = MergeToolMessages(request.messages);
  CallOrder order;
  SortToolResults(&order, &context);
  SortToolResults(&order, &messages);

  Conversation conversation;
  for (Message& message : context) conversation.turns.push_back({std::move(message), true});
  for (Message& message : messages) conversation.turns.push_back({std::move(message), false});
  const bool offers_tools =
      std::any_of(conversation.turns.begin(), conversation.turns.end(),
                  [](const Turn& turn) { return !turn.message.tools.empty(); });
  conversation.drops_reasoning = options.drop_thinking && !offers_tools;
  if (conversation.drops_reasoning && options.thinking == ThinkingMode::kThinking) {
    conversation.turns = DropReasoning(std::move(conversation.turns));
  }
  conversation.last_user = LastUser(conversation.turns);
  return conversation;
}

void PlaceRequestTools(ChatRequest* request) {
  if (request->tools.empty() && !request->response_format && !request->asks_for_object) return;
  std::vector<Message>& messages = request->context.empty() ? request->messages : request->context;
  const bool has_place = !messages.empty() && (messages.front().role == Role::kSystem ||
                                               messages.front().role == Role::kDeveloper);
  if (!has_place) messages.insert(messages.begin(), Message{.role = Role::kSystem});
  Message& place = messages.front();
  if (!request->tools.empty()) place.tools = std::exchange(request->tools, {});
  if (request->response_format) {
    place.response_format = std::exchange(request->response_format, std::nullopt);
  }
  if (std::exchange(request->asks_for_object, false)) place.asks_for_object = true;
}

}  // namespace fathom::chat
