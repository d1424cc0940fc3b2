// GeneratedTurnStore: the latest assistant turns as the model wrote them, token by token, so that a
// prompt can hold them as they were. docs/spec/encoding.md section 10.
//
// A client sends a turn back as JSON. Encoded again, it is not the text of the model: arguments are
// spaced differently, blanks and reasoning are lost, words may be split into other tokens. The
// prefix cache would end there, and the model would see text that it never wrote. A turn that is
// stored and comes back unchanged is rendered as it was written; a turn that the client edited is
// not found.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "api/common/recent_entries.h"
#include "api/common/turn_key.h"
#include "chat/call_ids.h"
#include "chat/chat.h"

namespace fathom {

// Which turns are brought back.
enum class ReplayScope {
  // Turns that a request names by ids of our calls, and the turns after such a turn. A request
  // without ids does not depend on earlier requests.
  kNamed,
  // Any that was said in the same conversation before.
  kAll,
};

// A conversation whose next turn may be remembered.
struct OpenConversation {
  TurnKey key{};
  bool is_named = false;  // contains a turn that was found by the ids of its calls
};

// In memory only. Over the limit the turns go that were not used for longest. Any thread.
class GeneratedTurnStore {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  // `random_bits` seeds the keys, so that no client can construct a conversation with the key of
  // another.
  GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes, const RandomBits& random_bits);

  // Sets Message::written of each assistant turn that is remembered. A turn whose reasoning the
  // client changed is not touched; one that came without has it again.
  OpenConversation Recall(std::vector<Message>* messages);

  // `answer`: as sent to the client, with the ids of its calls. Replaces an answer to the same
  // conversation with the same text.
  void Remember(const OpenConversation& conversation, const Message& answer, GeneratedTurn turn);

  // Returns the bytes of all entries, with an estimate of the overhead.
  std::size_t bytes() const;

 private:
  struct Turn {
    GeneratedTurn written;
    TurnKey reasoning;  // key of its text
  };

  // Whether it was found, changed reasoning or not.
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
