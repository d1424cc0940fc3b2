// TurnKey: identifies an assistant turn that a client sends back.
//
// A turn with calls is identified by them: their ids, which nobody can guess, with the names,
// arguments and text beside them. A turn without calls is identified by its text and all earlier
// messages. The key does not depend on the spelling of JSON, on blanks around a text, or on the
// reasoning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "chat/chat.h"

namespace fathom {

// 128 bits of a hash.
struct TurnKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const TurnKey&) const = default;
};

struct TurnKeyHash {
  std::size_t operator()(const TurnKey& key) const { return static_cast<std::size_t>(key.low); }
};

// Makes keys. A secret seed keeps anybody from writing a conversation with the key of another.
// Constant; any thread may call.
class TurnKeys {
 public:
  explicit TurnKeys(std::uint64_t seed) : seed_(seed) {}

  // Returns the key of an assistant turn with calls; nullopt if a call has no id.
  std::optional<TurnKey> OfCalls(const Message& turn) const;
  // Returns the key of an assistant turn without calls. `conversation`: the key of all earlier
  // messages.
  TurnKey OfText(const TurnKey& conversation, const Message& turn) const;
  // Returns the key of a conversation with one more message. TurnKey() is that of the empty one.
  TurnKey Extend(const TurnKey& conversation, const Message& message) const;
  // Returns the key of reasoning, for comparison.
  TurnKey OfReasoning(std::string_view reasoning) const;

 private:
  TurnKey Hash(std::string_view bytes) const;

  const std::uint64_t seed_;
};

// Returns the text without blanks at both ends, which clients remove.
std::string_view WithoutBlankEnds(std::string_view text);

// Returns the canonical JSON of arguments (json_writer.h), or the text itself if it is not JSON.
std::string CanonicalArguments(std::string_view arguments);

}  // namespace fathom
