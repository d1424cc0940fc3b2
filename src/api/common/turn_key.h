// TurnKey: what an assistant turn is found by when a client brings it back.
//
// A turn with calls is found by the calls: their unguessable ids, with the names, arguments and
// text. A turn without calls is found by its text and all messages before it. Neither depends on
// how a client spells JSON, on blanks around a text, or on the reasoning.
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

// Makes keys. Another seed gives other keys, so that with a secret seed no client can construct a
// conversation with the key of another. Constant; any thread.
class TurnKeys {
 public:
  explicit TurnKeys(std::uint64_t seed) : seed_(seed) {}

  // The key of an assistant turn with calls; nullopt if a call has no id.
  std::optional<TurnKey> OfCalls(const Message& turn) const;
  // The key of an assistant turn without calls. `conversation`: the key of all messages before it.
  TurnKey OfText(const TurnKey& conversation, const Message& turn) const;
  // The key of a conversation with one more message; the empty conversation has TurnKey().
  TurnKey Extend(const TurnKey& conversation, const Message& message) const;
  // The key of reasoning, for comparison.
  TurnKey OfReasoning(std::string_view reasoning) const;

 private:
  TurnKey Hash(std::string_view bytes) const;

  const std::uint64_t seed_;
};

// Without blanks at both ends, which clients take away.
std::string_view WithoutBlankEnds(std::string_view text);

// JSON text of arguments in one spelling (canonical_json.h); what is not JSON as it is.
std::string CanonicalArguments(std::string_view arguments);

}  // namespace fathom
