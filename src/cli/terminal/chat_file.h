// A conversation as a file: {"think": "off", "messages": [{"role": ..., "content": ...}, ...]}.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "cli/options/options.h"

namespace fathom::cli {

struct SavedChat {
  std::optional<Think> think;     // missing: the checkpoint's default
  std::vector<Message> messages;  // first the system message, if any; then user and assistant
};

// Writes the whole file or nothing: an older file stays unchanged if anything fails.
Status SaveChat(const std::filesystem::path& path, const SavedChat& chat);

// Errors name the file and the field: not JSON, roles that a chat at the terminal does not have, a
// system message that is not the first, an unknown mode.
Result<SavedChat> LoadChat(const std::filesystem::path& path);
Result<SavedChat> ParseChat(std::string_view json);

}  // namespace fathom::cli
