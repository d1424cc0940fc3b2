// GeneratedTurnStore: the latest assistant turns token by token, as the model generated them, for
// replay in later prompts. docs/spec/encoding.md section 10.
//
// A client sends a turn back as JSON. Encoded again, the turn differs from what the model wrote:
// arguments have other blanks, reasoning is missing, words may split into other tokens. The prefix
// cache then misses, and the model reads what it never wrote. A stored turn that comes back
// unchanged replaces its encoding in the prompt; a turn that the client edited is not found.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "api/common/recent_entries.h"
#include "api/common/turn_key.h"
#include "chat/call_ids.h"
#include "chat/chat.h"

namespace fathom {

// Which turns are replayed.
enum class ReplayScope {
  // Turns that a request names by the ids of calls, and the turns after them. A request without
  // such ids does not depend on earlier requests.
  kNamed,
  // All turns of the same conversation.
  kAll,
};

// A conversation whose next turn may be stored.
struct OpenConversation {
  TurnKey key{};
  bool is_named = false;  // a turn was found by the ids of its calls
};

// Keeps turns in memory; evicts the least recently used ones. Any thread may call.
class GeneratedTurnStore {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  // `random_bits` seed the keys, so that nobody can write a conversation with the key of another.
  GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes, const RandomBits& random_bits);

  // Sets Message::written of each assistant turn that is found. A turn whose reasoning the client
  // changed stays as it is; a turn without reasoning gets it back.
  OpenConversation Recall(std::vector<Message>* messages);

  // `answer`: what the client saw, with the ids of its calls. Replaces an answer to the same
  // conversation with the same text.
  void Remember(const OpenConversation& conversation, const Message& answer, GeneratedTurn turn);

  // Returns the bytes of all entries, with an estimate of their overhead.
  std::size_t bytes() const;

 private:
  struct Turn {
    GeneratedTurn written;
    TurnKey reasoning;  // hash of the reasoning's text
  };

  // Returns whether the turn was found, with changed reasoning or not.
  bool RecallTurn(const OpenConversation& conversation, Message* message);
  bool FindsByText(const OpenConversation& conversation) const {
    return scope_ == ReplayScope::kAll || conversation.is_named;
  }

  const ReplayScope scope_;
  const TurnKeys keys_;
  mutable std::mutex mutex_;
  RecentEntries<TurnKey, Turn, TurnKeyHash> turns_;  // guarded by mutex_
};

}  // namespace fathom
