// Which chat format a model was trained on.
#ifndef FATHOM_CLI_CHAT_PROFILE_H_
#define FATHOM_CLI_CHAT_PROFILE_H_

#include <filesystem>
#include <string>

#include "base/result.h"
#include "cli/log.h"
#include "prompt/profile.h"

namespace fathom::cli {

// The profile of that name; if it is empty, what the model's directory says, and a line in the log
// if that is a guess.
Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log);

}  // namespace fathom::cli

#endif  // FATHOM_CLI_CHAT_PROFILE_H_
