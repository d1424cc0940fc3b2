#include "chat/profile.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/utf8.h"
#include "json/json_value.h"

namespace fathom::chat {
namespace {

// The highest level of the April checkpoints, the middle one of v4-0731.
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

// Names beyond the official encoder's follow the hosted API.
constexpr std::array<EffortLevel, 8> kPreviewEfforts = {{
    {.name = "none", .thinks = false, .prefix = ""},
    {.name = "minimal", .thinks = true, .prefix = ""},
    {.name = "low", .thinks = true, .prefix = ""},
    {.name = "medium", .thinks = true, .prefix = ""},
    {.name = "high", .thinks = true, .prefix = ""},
    {.name = "xhigh", .thinks = true, .prefix = ""},
    {.name = "max", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "ultra", .thinks = true, .prefix = kAbsoluteMaximum},
}};

constexpr std::array<EffortLevel, 8> k0731Efforts = {{
    {.name = "none", .thinks = false, .prefix = ""},
    {.name = "minimal", .thinks = true, .prefix = ""},
    {.name = "low", .thinks = true, .prefix = ""},
    {.name = "medium", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "high", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "xhigh", .thinks = true, .prefix = kAbsoluteMaximum},
    {.name = "max", .thinks = true, .prefix = kBeyondMaximum},
    {.name = "ultra", .thinks = true, .prefix = kBeyondMaximum},
}};

constexpr std::array<PromptProfile, 2> kProfiles = {{
    {.name = "v4-preview", .efforts = kPreviewEfforts},
    {.name = "v4-0731", .efforts = k0731Efforts},
}};

// Returns the object in a JSON file; nullopt if there is none.
std::optional<JsonValue> ReadObject(const std::filesystem::path& file) {
  const Result<std::string> text = ReadFile(file, kMostSettingsBytes);
  if (!text) return std::nullopt;
  Result<JsonValue> json = ParseJson(*text);
  if (!json || !json->IsObject()) return std::nullopt;
  return *std::move(json);
}

bool HasDsparkKeys(const std::optional<JsonValue>& config) {
  for (std::size_t i = 0; config && i < config->items().size(); ++i) {
    if (config->key(i).starts_with("dspark_")) return true;
  }
  return false;
}

}  // namespace

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
  const std::optional<JsonValue> generation =
      ReadObject(model_directory / "generation_config.json");
  const Result<PromptProfile> named =
      FindProfile(generation ? generation->FindText("prompt_profile") : "");
  if (named) {
    return {.profile = *named, .is_certain = true, .evidence = "generation_config.json"};
  }
  const Result<std::string> encoder =
      ReadFile(model_directory / "encoding" / "encoding_dsv4.py", kMostSettingsBytes);
  const auto uses = [&](std::string_view name) {
    return encoder && encoder->find(name) != std::string::npos;
  };
  // Looks for the newer identifier first: the older one may occur with it.
  const bool is_later = uses("REASONING_EFFORT_PROMPTS");
  if (is_later || uses("REASONING_EFFORT_MAX")) {
    return {.profile = kProfiles[is_later ? 1 : 0],
            .is_certain = true,
            .evidence = "encoding/encoding_dsv4.py"};
  }
  // DSpark came with v4-0731, but drafters of that kind exist for the April weights, too.
  if (HasDsparkKeys(ReadObject(model_directory / "config.json"))) {
    return {.profile = kProfiles[1], .is_certain = false, .evidence = "dspark_* in config.json"};
  }
  return {.profile = kProfiles[0], .is_certain = false, .evidence = ""};
}

Result<EffortLevel> FindEffort(const PromptProfile& profile, std::string_view name) {
  if (name.empty()) return EffortLevel{.name = "", .thinks = true, .prefix = ""};
  for (const EffortLevel& level : profile.efforts) {
    if (level.name == name) return level;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "reasoning effort: expected one of {}, found \"{}\"", EffortNames(profile),
                   ShortenedUtf8(name, kQuotedBytes));
}

std::string EffortNames(const PromptProfile& profile) {
  std::string names;
  for (const EffortLevel& level : profile.efforts) {
    names += names.empty() ? "" : ", ";
    names += level.name;
  }
  return names;
}

}  // namespace fathom::chat
