// GeneratedTurnStore: the latest assistant turns as the model wrote them, token by token, so that a
// prompt can hold them as they were. docs/spec/encoding.md section 10.
//
// A client brings a turn back as JSON. Encoded anew it is not what the model wrote: arguments are
// spaced differently, blanks and reasoning are lost, words may be cut into other tokens. From there
// on the prefix cache has nothing, and the model sees what it never said. A turn that is remembered
// and comes back unchanged is put into the prompt as it was; one that the client edited is not
// found.
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
  // Those that a request names: by ids of calls that we gave out, and what follows such a turn. A
  // request without them means the same whatever was asked before.
  kNamed,
  // Any that was said in the same conversation before.
  kAll,
};

// A conversation whose next turn may be remembered.
struct OpenConversation {
  TurnKey key{};
  bool is_named = false;  // it has a turn that was found by the ids of its calls
};

// In memory only. Over the limit the turns go that were not used for longest. Any thread.
class GeneratedTurnStore {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  // `random_bits`: of the keys, so that nobody can write a conversation that has another's.
  GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes, const RandomBits& random_bits);

  // Sets Message::written of each assistant turn that is remembered. A turn whose reasoning the
  // client changed is not touched; one that came without has it again.
  OpenConversation Recall(std::vector<Message>* messages);

  // `answer`: what the client was told, with the ids of its calls. In place of an answer to the
  // same conversation with the same text.
  void Remember(const OpenConversation& conversation, const Message& answer, GeneratedTurn turn);

  // Of all that is kept, with an estimate of what surrounds the tokens.
  std::size_t bytes() const;

 private:
  struct Turn {
    GeneratedTurn written;
    TurnKey reasoning;  // of its text
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
