// A conversation as a file: {"think": "off", "messages": [{"role": ..., "content": ...}, ...]}.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "cli/options/options.h"

namespace fathom::cli {

struct SavedChat {
  std::optional<Think> think;     // missing: as the checkpoint has learned
  std::vector<Message> messages;  // system first, if there is one; then user and assistant
};

// All of the file or none of it: an older file stays as it is if anything fails.
Status SaveChat(const std::filesystem::path& path, const SavedChat& chat);

// Errors name the file and the field: no JSON, roles that a chat at the terminal does not have, a
// system message that is not the first, an unknown mode.
Result<SavedChat> LoadChat(const std::filesystem::path& path);
Result<SavedChat> ParseChat(std::string_view json);

}  // namespace fathom::cli
