#include "chat/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "chat/literals.h"
#include "tests/chat/golden.h"

namespace fathom::chat {
namespace {

TEST(Profile, LiteralsAreThePublishedOnes) {
  const auto literals = testing::EncodingJson("extra/template_literals.json");
  if (!literals) GTEST_SKIP() << testing::kNoSharedData;
  const std::pair<const char*, std::string_view> pairs[] = {
      {"bos", kBeginOfSentence},
      {"eos", kEndOfSentence},
      {"user", kUserToken},
      {"assistant", kAssistantToken},
      {"latest_reminder", kLatestReminderToken},
      {"think_open", kThinkOpenToken},
      {"think_close", kThinkCloseToken},
      {"dsml", kDsml},
      {"tools_block_before_schemas", kToolsBlockBefore},
      {"tools_block_after_schemas", kToolsBlockAfter},
      {"tools_schema_joiner", kToolSchemaJoiner},
      {"tools_block_prefix_after_system_content", kToolsBlockPrefix},
      {"response_format_prefix", kResponseFormatPrefix},
      {"tool_result_open", kToolResultOpen},
      {"tool_result_close", kToolResultClose},
      {"block_joiner", kBlockJoiner}};
  for (const auto& [key, literal] : pairs) {
    EXPECT_EQ((*literals)[key].get<std::string>(), literal) << key;
  }
  EXPECT_EQ((*literals)["task_tokens"].size(), std::size(kTaskTokens));
  for (const TaskToken& entry : kTaskTokens) {
    EXPECT_EQ((*literals)["task_tokens"][std::string(entry.task)].get<std::string>(), entry.token);
  }
}

TEST(Profile, EffortTextsAreThePublishedOnes) {
  const auto literals = testing::EncodingJson("extra/template_literals.json");
  if (!literals) GTEST_SKIP() << testing::kNoSharedData;
  EXPECT_EQ((*literals)["reasoning_effort"].size(), 2U);
  for (const char* name : {"v4-preview", "v4-0731"}) {
    const Result<PromptProfile> profile = FindProfile(name);
    ASSERT_TRUE(profile) << name;
    for (const auto& [effort, text] : (*literals)["reasoning_effort"][name].items()) {
      const Result<EffortLevel> level = FindEffort(*profile, effort == "null" ? "" : effort);
      ASSERT_TRUE(level) << effort;
      EXPECT_EQ(level->prefix, text.get<std::string>()) << name << " " << effort;
      EXPECT_TRUE(level->thinks);
    }
  }
}

TEST(Profile, NamesThatClientsSend) {
  const PromptProfile& preview = PreviewProfile();
  const PromptProfile later = *FindProfile("v4-0731");
  for (const char* weak : {"minimal", "low", "medium", "high", "xhigh"}) {
    EXPECT_EQ(FindEffort(preview, weak)->prefix, "") << weak;
  }
  for (const char* weak : {"minimal", "low"}) EXPECT_EQ(FindEffort(later, weak)->prefix, "");
  for (const char* usual : {"medium", "high", "xhigh"}) {
    EXPECT_EQ(FindEffort(later, usual)->prefix, FindEffort(preview, "max")->prefix) << usual;
  }
  EXPECT_TRUE(FindEffort(later, "max")->prefix.starts_with("Reasoning Effort: Beyond maximum"));
  EXPECT_EQ(FindEffort(later, "ultra")->prefix, FindEffort(later, "max")->prefix);
  EXPECT_EQ(FindEffort(preview, "ultra")->prefix, FindEffort(preview, "max")->prefix);
  EXPECT_FALSE(FindEffort(preview, "none")->thinks);
  EXPECT_FALSE(FindEffort(later, "none")->thinks);
  EXPECT_EQ(
      FindEffort(later, "High").error().message,
      "reasoning effort: expected one of none, minimal, low, medium, high, xhigh, max, ultra, "
      "found \"High\"");
}

TEST(Profile, UnknownNameListsTheKnown) {
  const Result<PromptProfile> profile = FindProfile("v5");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().message,
            "prompt profile: expected one of v4-preview, v4-0731, found \"v5\"");
}

// The bundled encoder decides, whatever the directory is called.
TEST(Profile, IsDetectedFromTheBundledEncoder) {
  testing::TemporaryDirectory directory;
  const std::filesystem::path model = directory.path() / "DeepSeek-V4-Flash-0731";
  std::filesystem::create_directories(model / "encoding");
  const auto detect = [&](std::string_view encoder) {
    std::ofstream(model / "encoding" / "encoding_dsv4.py") << encoder;
    return DetectProfile(model);
  };
  EXPECT_EQ(DetectProfile(model).profile.name, "v4-preview");
  EXPECT_FALSE(DetectProfile(model).is_certain);
  EXPECT_EQ(detect("REASONING_EFFORT_MAX = (").profile.name, "v4-preview");
  EXPECT_TRUE(detect("REASONING_EFFORT_MAX = (").is_certain);
  EXPECT_EQ(detect("REASONING_EFFORT_PROMPTS = {").profile.name, "v4-0731");
  EXPECT_TRUE(detect("REASONING_EFFORT_PROMPTS = {").is_certain);
  EXPECT_FALSE(detect("something else").is_certain);
  EXPECT_FALSE(detect("").is_certain);
}

TEST(Profile, OtherEvidence) {
  testing::TemporaryDirectory directory;
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream(directory.path() / name) << text;
    return DetectProfile(directory.path());
  };
  const ProfileDetection hint = write("config.json", R"({"dspark_block_size": 5})");
  EXPECT_EQ(hint.profile.name, "v4-0731");
  EXPECT_FALSE(hint.is_certain) << "drafters of that kind exist for older weights, too";
  EXPECT_EQ(hint.evidence, "dspark_* in config.json");
  EXPECT_EQ(write("generation_config.json", R"({"prompt_profile": "v9"})").profile.name, "v4-0731");
  const ProfileDetection named =
      write("generation_config.json", R"({"prompt_profile": "v4-preview"})");
  EXPECT_EQ(named.profile.name, "v4-preview");
  EXPECT_TRUE(named.is_certain);
  EXPECT_EQ(write("config.json", "[").profile.name, "v4-preview");
}

TEST(Profile, TheEmbeddedModelSaysItsOwn) {
  EXPECT_TRUE(DetectProfile(testing::ProjectPath("models/fairy")).is_certain);
}

}  // namespace
}  // namespace fathom::chat
