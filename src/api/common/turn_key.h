// TurnKey: what an assistant turn is found by when a client brings it back.
//
// A turn with calls is found by them: their ids, which nobody can guess, with the names, arguments
// and text beside them. One without calls is found by its text and all that was said before it.
// Neither depends on how a client spells JSON, on blanks around a text, or on the reasoning.
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

// Makes keys. Those of another seed are others, so that with a secret one nobody can write a
// conversation whose key is that of somebody else's. Constant; any thread.
class TurnKeys {
 public:
  explicit TurnKeys(std::uint64_t seed) : seed_(seed) {}

  // Of an assistant turn with calls; nullopt if one of them has no id.
  std::optional<TurnKey> OfCalls(const Message& turn) const;
  // Of an assistant turn without. `conversation`: of all messages before it.
  TurnKey OfText(const TurnKey& conversation, const Message& turn) const;
  // Of a conversation that has one message more; that of no message is TurnKey().
  TurnKey Extend(const TurnKey& conversation, const Message& message) const;
  // Of reasoning, to tell whether it is the same.
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
