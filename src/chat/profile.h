// PromptProfile: the differences between the chat formats of the published V4 checkpoints.
// docs/spec/encoding.md sections 1 and 5.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace fathom {

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
std::span<const PromptProfile> KnownProfiles();
const PromptProfile& PreviewProfile();

// Unknown names are kInvalidArgument; the message lists the known ones.
Result<PromptProfile> FindProfile(std::string_view name);

struct ProfileDetection {
  PromptProfile profile{};
  // False: no evidence in the directory, v4-preview assumed; worth a warning.
  bool is_certain = false;
};

// Finds the identifiers that the encoder in the checkpoint, encoding/encoding_dsv4.py, uses. The
// name of the directory is never evidence: a wrong profile shifts every effort by one level.
ProfileDetection DetectProfile(const std::filesystem::path& model_directory);

// Returns the level of this name. "" (the client did not choose) is a level that thinks and adds no
// text. Unknown names are kInvalidArgument; the message lists the known ones.
Result<EffortLevel> FindEffort(const PromptProfile& profile, std::string_view name);

}  // namespace fathom
