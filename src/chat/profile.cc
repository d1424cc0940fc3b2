#include "chat/profile.h"

#include <array>
#include <string>

#include "base/file.h"
#include "base/utf8.h"

namespace fathom {
namespace {

// The strongest level of the April checkpoints, the middle one of v4-0731.
constexpr std::string_view kAbsoluteMaximum =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to"
    " resolve the root cause, rigorously stress-testing your logic against all potential paths,"
    " edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate"
    " step, considered alternative, and rejected hypothesis to ensure absolutely no assumption"
    " is left unchecked.\n"
    "\n";

constexpr std::string_view kBeyondMaximum =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance:"
    " exhaustively decompose the problem into its most fundamental components, trace every"
    " causal chain to its root, and resolve the underlying cause rather than any surface"
    " symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple"
    " angles and are certain that no assumption remains unchecked and no error remains"
    " undiscovered.\n"
    "\n";

// Names beyond the official encoder's follow the hosted API: a level for which the table has no
// text is the level below.
constexpr std::array<EffortLevel, 7> kPreviewEfforts = {{
    {.name = "none", .thinks = false, .prefix = ""},
    {.name = "minimal", .thinks = true, .prefix = ""},
    {.name = "low", .thinks = true, .prefix = ""},
    {.name = "medium", .thinks = true, .prefix = ""},
    {.name = "high", .thinks = true, .prefix = ""},
    {.name = "xhigh", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "max", .thinks = true, .prefix = kAbsoluteMaximum},
}};

constexpr std::array<EffortLevel, 7> k0731Efforts = {{
    {.name = "none", .thinks = false, .prefix = ""},
    {.name = "minimal", .thinks = true, .prefix = ""},
    {.name = "low", .thinks = true, .prefix = ""},
    {.name = "medium", .thinks = true, .prefix = ""},
    {.name = "high", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "xhigh", .thinks = true, .prefix = kBeyondMaximum},
    {.name = "max", .thinks = true, .prefix = kBeyondMaximum},
}};

constexpr std::array<PromptProfile, 2> kProfiles = {{
    {.name = "v4-preview", .efforts = kPreviewEfforts},
    {.name = "v4-0731", .efforts = k0731Efforts},
}};

}  // namespace

std::span<const PromptProfile> KnownProfiles() { return kProfiles; }

const PromptProfile& PreviewProfile() { return kProfiles[0]; }

Result<PromptProfile> FindProfile(std::string_view name) {
  std::string known;
  for (const PromptProfile& profile : kProfiles) {
    if (profile.name == name) return profile;
    known += known.empty() ? "" : ", ";
    known += profile.name;
  }
  return MakeError(ErrorCode::kInvalidArgument, "prompt profile: expected one of {}, found \"{}\"",
                   known, name);
}

ProfileDetection DetectProfile(const std::filesystem::path& model_directory) {
  const Result<std::string> text =
      ReadFile(model_directory / "encoding" / "encoding_dsv4.py", kMostSettingsBytes);
  if (!text) return {.profile = kProfiles[0], .is_certain = false};
  // Looks for the newer identifier first: the older one may stand beside it.
  if (text->find("REASONING_EFFORT_PROMPTS") != std::string::npos) {
    return {.profile = kProfiles[1], .is_certain = true};
  }
  const bool is_preview = text->find("REASONING_EFFORT_MAX") != std::string::npos;
  return {.profile = kProfiles[0], .is_certain = is_preview};
}

Result<EffortLevel> FindEffort(const PromptProfile& profile, std::string_view name) {
  if (name.empty()) return EffortLevel{.name = "", .thinks = true, .prefix = ""};
  std::string known;
  for (const EffortLevel& level : profile.efforts) {
    if (level.name == name) return level;
    known += known.empty() ? "" : ", ";
    known += level.name;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "reasoning effort: expected one of {}, found \"{}\"", known,
                   ShortenedUtf8(name, kQuotedBytes));
}

}  // namespace fathom
