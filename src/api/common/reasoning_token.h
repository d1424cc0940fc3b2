// Encodes reasoning as an opaque text that a client keeps: "encrypted_content" of the Responses
// API. Clients that store nothing on the server, such as Codex, send this text back and drop the
// readable reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom::api {

// Returns base64 of a mark, a checksum and the text. Nothing is hidden: the client also has the
// readable text.
std::string MakeReasoningToken(std::string_view reasoning);

// Returns nullopt for a token of another server or a damaged one.
std::optional<std::string> ReadReasoningToken(std::string_view token);

}  // namespace fathom::api
