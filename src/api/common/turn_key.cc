#include "api/common/turn_key.h"

#include <xxhash.h>

#include <algorithm>
#include <string>

#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom {
namespace {

// The hashed bytes begin with one of these, so that keys of two kinds differ.
enum class KeyKind : char { kCalls = 'c', kText = 't', kMessage = 'm', kReasoning = 'r' };

// The hashed bytes. Each field follows its length, so that different lists of fields are different
// bytes.
class Fields {
 public:
  explicit Fields(KeyKind kind) : bytes_(1, static_cast<char>(kind)) {}

  Fields& Add(std::string_view field) {
    AddNumber(field.size());
    bytes_ += field;
    return *this;
  }

  Fields& AddNumber(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(number >> shift));
    }
    return *this;
  }

  Fields& AddKey(const TurnKey& key) { return AddNumber(key.low).AddNumber(key.high); }

  Fields& AddCalls(const std::vector<ToolCall>& calls) {
    AddNumber(calls.size());
    for (const ToolCall& call : calls) {
      Add(call.id).Add(call.name).Add(CanonicalArguments(call.arguments));
    }
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

std::optional<TurnKey> TurnKeys::OfCalls(const Message& turn) const {
  const auto has_no_id = [](const ToolCall& call) { return call.id.empty(); };
  if (std::any_of(turn.tool_calls.begin(), turn.tool_calls.end(), has_no_id)) return std::nullopt;
  Fields fields(KeyKind::kCalls);
  fields.Add(WithoutBlankEnds(turn.content)).AddCalls(turn.tool_calls);
  return Hash(fields.bytes());
}

TurnKey TurnKeys::OfText(const TurnKey& conversation, const Message& turn) const {
  Fields fields(KeyKind::kText);
  fields.AddKey(conversation).Add(WithoutBlankEnds(turn.content));
  return Hash(fields.bytes());
}

TurnKey TurnKeys::Extend(const TurnKey& conversation, const Message& message) const {
  Fields fields(KeyKind::kMessage);
  fields.AddKey(conversation).AddNumber(static_cast<std::uint64_t>(message.role));
  const bool is_turn = message.role == Role::kAssistant;
  fields.Add(is_turn ? WithoutBlankEnds(message.content) : std::string_view(message.content));
  fields.AddNumber(message.blocks.size());
  for (const ContentBlock& block : message.blocks) {
    fields.AddNumber(static_cast<std::uint64_t>(block.kind))
        .Add(block.text)
        .Add(block.tool_call_id);
  }
  fields.Add(message.tool_call_id).AddCalls(message.tool_calls);
  return Hash(fields.bytes());
}

TurnKey TurnKeys::OfReasoning(std::string_view reasoning) const {
  return Hash(Fields(KeyKind::kReasoning).Add(WithoutBlankEnds(reasoning)).bytes());
}

TurnKey TurnKeys::Hash(std::string_view bytes) const {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed_);
  return {.low = hash.low64, .high = hash.high64};
}

std::string_view WithoutBlankEnds(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string CanonicalArguments(std::string_view arguments) {
  const Result<JsonValue> json = ParseJson(arguments);
  return json ? CanonicalJson(*json) : std::string(arguments);
}

}  // namespace fathom
