// Which chat format a model was trained on.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "chat/profile.h"
#include "cli/terminal/log.h"

namespace fathom::cli {

// The profile of that name; if it is empty, what the model's directory says, and a line in the log
// if that is a guess.
Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log);

}  // namespace fathom::cli
