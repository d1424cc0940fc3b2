// The defaults of a model: its chat format, its sampling parameters, and its description for the
// APIs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "api/common/api_call.h"
#include "base/result.h"
#include "chat/profile.h"
#include "cli/options/options.h"
#include "cli/terminal/log.h"
#include "engine/request.h"
#include "runtime/model_files.h"

namespace fathom::cli {

// Returns the chat format with which the model was trained: the profile named `name`. If that is
// empty, returns the format that the model's directory names, with a warning if that is a guess.
Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log);

// Returns whether chats think that do not choose: as `chosen`, or else the checkpoint's default.
ThinkingMode DefaultThinking(std::optional<bool> chosen, const GenerationConfig& config);

// Returns the given options; for other parameters, the values of the model's
// generation_config.json.
SamplingParameters MakeSamplingParameters(const SamplingOptions& options,
                                          const GenerationConfig& config);

// Makes the model of the APIs with these limits. `model` must outlive it. Errors: an unknown
// profile, sampling out of range.
Result<ApiModel> MakeApiModel(const ApiCommand& command, std::int64_t n_context,
                              std::int64_t max_choices, const ModelFiles& model, Log& log);

}  // namespace fathom::cli
