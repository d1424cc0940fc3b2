// PromptProfile: the differences between the chat formats of the published V4 checkpoints.
// docs/spec/encoding.md sections 1 and 5.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom::chat {

// One value of "reasoning effort" and its effect.
struct EffortLevel {
  std::string_view name{};
  bool thinks = true;         // false: the answer has no reasoning, whatever the mode asks for
  std::string_view prefix{};  // placed right after the first token of a thinking prompt
};

// Data only; the views point into the program.
struct PromptProfile {
  std::string_view name{};
  std::span<const EffortLevel> efforts{};
};

// "v4-preview" (V4-Flash and V4-Pro of April 2026) and "v4-0731" (Flash-0731, Pro-0813).
const PromptProfile& PreviewProfile();

// Finds a profile. Unknown names are kInvalidArgument; the message lists the known ones.
Result<PromptProfile> FindProfile(std::string_view name);

struct ProfileDetection {
  PromptProfile profile{};
  bool is_certain = false;      // false: a guess, worth a warning
  std::string_view evidence{};  // the place in the directory that decides; "": none
};

// Uses the first of
//   prompt_profile in generation_config.json, the name of a profile,
//   the identifiers in encoding/encoding_dsv4.py, the encoder of the checkpoint,
//   keys dspark_* in config.json, a hint at v4-0731,
// and otherwise v4-preview. The name of the directory is never evidence: a wrong profile shifts
// every effort by one level.
ProfileDetection DetectProfile(const std::filesystem::path& model_directory);

// Returns the level with this name. "" (the client did not choose) is a level that thinks and adds
// no text. Unknown names are kInvalidArgument; the message lists the known ones.
Result<EffortLevel> FindEffort(const PromptProfile& profile, std::string_view name);
// Returns the names of all levels, for messages.
std::string EffortNames(const PromptProfile& profile);

}  // namespace fathom::chat
