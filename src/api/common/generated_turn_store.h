// GeneratedTurnStore: stores the latest assistant turns token by token, as the model generated
// them, for replay in later prompts. docs/spec/encoding.md section 10.
//
// A client sends a turn back as JSON. Encoded again, the turn differs from the text that the model
// wrote: arguments have other blanks, reasoning is missing, words may split into other tokens. The
// prefix cache then misses, and the model reads text that it never wrote. A stored turn that comes
// back unchanged replaces its encoding in the prompt; a turn that the client edited is not found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/common/recent_entries.h"
#include "chat/call_ids.h"
#include "chat/chat.h"

namespace fathom::tokenizer {
class Tokenizer;  // tokenizer/tokenizer.h
}  // namespace fathom::tokenizer

namespace fathom::api {

class ApiAnswer;         // api/common/api_answer.h
struct CollectedAnswer;  // api/common/answer_collector.h

// Identifies an assistant turn that a client sends back: 128 bits of a hash.
//
// A turn with calls is identified by their ids, which cannot be guessed, together with the names,
// arguments and text beside them. A turn without calls is identified by its text and all earlier
// messages. The key does not depend on the spelling of JSON, on blanks around a text, or on the
// reasoning.
struct TurnKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const TurnKey&) const = default;
};

struct TurnKeyHash {
  std::size_t operator()(const TurnKey& key) const { return static_cast<std::size_t>(key.low); }
};

// Makes keys. With a secret seed, clients cannot write a conversation that has the key of another.
// Constant; any thread may call.
class TurnKeys {
 public:
  explicit TurnKeys(std::uint64_t seed) : seed_(seed) {}

  // Returns the key of an assistant turn with calls; nullopt if a call has no id.
  std::optional<TurnKey> OfCalls(const Message& turn) const;
  // Returns the key of an assistant turn without calls. `conversation`: the key of all earlier
  // messages.
  TurnKey OfText(const TurnKey& conversation, const Message& turn) const;
  // Returns the key of a conversation with one more message. TurnKey() is the key of an empty one.
  TurnKey Extend(const TurnKey& conversation, const Message& message) const;
  // Returns the key of reasoning, for comparison.
  TurnKey OfReasoning(std::string_view reasoning) const;

 private:
  TurnKey Hash(std::string_view bytes) const;

  const std::uint64_t seed_;
};

// Returns the canonical JSON of arguments (json_writer.h), or the text itself if it is not JSON.
std::string CanonicalArguments(std::string_view arguments);

// Selects the turns that are replayed.
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

  // `random_bits` seed the keys, so that clients cannot write a conversation that has the key of
  // another.
  GeneratedTurnStore(ReplayScope scope, std::size_t max_bytes, const RandomBits& random_bits);

  // Sets Message::written of each assistant turn that is found. A turn whose reasoning the client
  // changed stays unchanged; a turn without reasoning gets it back.
  OpenConversation Recall(std::vector<Message>* messages);

  // `answer`: the answer as the client saw it, with the ids of its calls. Replaces an answer to the
  // same conversation with the same text.
  void Remember(const OpenConversation& conversation, const Message& answer, GeneratedTurn turn);

  // Returns the bytes of all entries, with an estimate of their overhead.
  std::size_t bytes() const;

 private:
  struct Turn {
    GeneratedTurn written;
    TurnKey reasoning;  // hash of the reasoning's text
  };

  // Returns whether the turn was found, with unchanged or changed reasoning.
  bool RecallTurn(const OpenConversation& conversation, Message* message);
  // Returns nothing for a turn that is not replayed.
  std::optional<TurnKey> FindKey(const OpenConversation& conversation, const Message& turn) const;

  const ReplayScope scope_;
  const TurnKeys keys_;
  mutable std::mutex mutex_;
  RecentEntries<TurnKey, Turn, TurnKeyHash> turns_;  // guarded by mutex_
};

// Returns the tokens of a chat's answer as a turn of the format, ended like the encoder's turns.
// Returns nullopt if the answer was cut or stopped, contains tokens that no turn has, or if the
// strict parser's result differs from the answer that the client saw; then a prompt should contain
// the repaired answer.
std::optional<GeneratedTurn> MakeWrittenTurn(const CollectedAnswer& collected,
                                             bool starts_in_reasoning, const Tokenizer& tokenizer);

// Stores the turns of all choices in model().turns, if the call allows it. All choices must have
// finished.
void RememberTurns(const ApiAnswer& answer);

}  // namespace fathom::api
