// Reasoning as an opaque text that a client keeps for us: "encrypted_content" of the Responses API.
// Clients that store nothing with the server, such as Codex, send back this and drop the readable
// reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// Base64 of a mark, a checksum and the text. It hides nothing: who holds it was sent the text too.
std::string MakeReasoningToken(std::string_view reasoning);

// nullopt: not one of ours (another server's, say), or damaged.
std::optional<std::string> ReadReasoningToken(std::string_view token);

}  // namespace fathom
