#include "api/common/generated_turn_store.h"

#include <optional>
#include <utility>

namespace fathom {
namespace {

// Nodes and tables around the tokens of a turn.
constexpr std::size_t kTurnOverhead = 256;

}  // namespace

GeneratedTurnStore::GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes,
                                       const RandomBits& random_bits)
    : scope_(scope), keys_(random_bits()), turns_(max_bytes) {}

OpenConversation GeneratedTurnStore::Recall(std::vector<Message>* messages) {
  OpenConversation conversation;
  for (Message& message : *messages) {
    if (message.role == Role::kAssistant && !message.wo_eos) {
      const bool is_found = RecallTurn(conversation, &message);
      if (is_found && !message.tool_calls.empty()) conversation.is_named = true;
    }
    conversation.key = keys_.Extend(conversation.key, message);
  }
  return conversation;
}

bool GeneratedTurnStore::RecallTurn(const OpenConversation& conversation, Message* message) {
  std::optional<TurnKey> key;
  if (!message->tool_calls.empty()) {
    key = keys_.OfCalls(*message);
  } else if (FindsByText(conversation)) {
    key = keys_.OfText(conversation.key, *message);
  }
  if (!key) return false;
  const bool has_reasoning = !WithoutBlankEnds(message->reasoning_content).empty();
  const TurnKey reasoning = keys_.OfReasoning(message->reasoning_content);
  const std::lock_guard lock(mutex_);
  const Turn* turn = turns_.Use(*key);
  if (turn == nullptr) return false;
  if (!has_reasoning || turn->reasoning == reasoning) message->written = turn->written;
  return true;
}

void GeneratedTurnStore::Remember(const OpenConversation& conversation, const Message& answer,
                                  GeneratedTurn turn) {
  const bool has_calls = !answer.tool_calls.empty();
  if (!has_calls && !FindsByText(conversation)) return;
  const std::optional<TurnKey> key =
      has_calls ? keys_.OfCalls(answer) : keys_.OfText(conversation.key, answer);
  if (!key) return;
  const TurnKey reasoning = keys_.OfReasoning(answer.reasoning_content);
  const std::size_t bytes = kTurnOverhead + turn.tokens.size() * sizeof(Token);
  const std::lock_guard lock(mutex_);
  turns_.Put(*key, {.written = std::move(turn), .reasoning = reasoning}, bytes);
}

std::size_t GeneratedTurnStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return turns_.bytes();
}

}  // namespace fathom
