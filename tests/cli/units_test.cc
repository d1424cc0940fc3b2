// The parts of the command line that need no model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/commands/row_spool.h"
#include "cli/model_defaults.h"
#include "cli/options/token_ids.h"
#include "cli/terminal/chat_file.h"
#include "cli/terminal/progress.h"
#include "runtime/generation_config.h"
#include "runtime/model_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProgressTest, BarFitsTheTerminal) {
  EXPECT_EQ(RenderProgress("load", 0.5, 24), "load [#####......]  50%");
  for (int columns = 1; columns < 120; ++columns) {
    for (const double share : {0.0, 0.3, 1.0}) {
      const std::string line = RenderProgress("loading a model", share, columns);
      EXPECT_LT(line.size(), static_cast<std::size_t>(std::max(columns, 5)));
    }
  }
  EXPECT_THAT(RenderProgress("x", 1.7, 60), HasSubstr("100%"));
  EXPECT_THAT(RenderProgress("x", -1, 60), HasSubstr("  0%"));
}

TEST(ModelPathTest, FindsTheModelOfABuildTreeAndOfAnInstallation) {
  const testing::TemporaryDirectory directory;
  const auto make_model = [&](const std::filesystem::path& at) {
    std::filesystem::create_directories(directory.path() / at);
    std::ofstream(directory.path() / at / "config.json") << "{}";
    return directory.path() / at;
  };
  const auto in_project = make_model("project/models/fairy");
  const auto installed = make_model("usr/share/fathom/models/fairy");
  EXPECT_EQ(*FindEmbeddedModel(directory.path() / "project/build/release/fathom"), in_project);
  EXPECT_EQ(*FindEmbeddedModel(directory.path() / "project/fathom"), in_project);
  EXPECT_EQ(*FindEmbeddedModel(directory.path() / "usr/bin/fathom"), installed);
  const auto missing = FindEmbeddedModel(directory.path() / "opt/bin/fathom");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("--model DIR"));
}

TEST(TokenIdsTest, CommasAndBlanks) {
  EXPECT_THAT(*ReadTokenIds("1,2 3\n4,\t5,,6", 10), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(ReadTokenIds("1 10", 10));
  EXPECT_FALSE(ReadTokenIds("1 - 2", 10));
  EXPECT_FALSE(ReadTokenIds("", 10));
}

TEST(RowSpoolTest, GivesBackWhatItGot) {
  const testing::TemporaryDirectory directory;
  Result<RowSpool> spool = RowSpool::Create(directory.path());
  ASSERT_TRUE(spool) << spool.error().message;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string piece(static_cast<std::size_t>(i * 37), static_cast<char>('a' + i % 26));
    expected += piece;
    ASSERT_TRUE(spool->Append(std::as_bytes(std::span(piece))));
  }
  std::string found;
  ASSERT_TRUE(spool->Replay([&](std::span<const std::byte> bytes) -> Status {
    found.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }));
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "the file has no name";
  EXPECT_FALSE(RowSpool::Create(directory.path() / "missing"));
}

TEST(GenerationConfigTest, ReadsWhatSamplingNeeds) {
  const auto config = ParseGenerationConfig(
      R"({"temperature": 0.7, "top_p": 0.9, "eos_token_id": [1, 5], "do_sample": true})", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->temperature, 0.7);
  EXPECT_EQ(config->top_p, 0.9);
  EXPECT_THAT(config->eos_tokens, ElementsAre(1, 5));
  EXPECT_EQ(ParseGenerationConfig(R"({"do_sample": false, "temperature": 1})", "f")->temperature,
            0);
  EXPECT_THAT(ParseGenerationConfig(R"({"eos_token_id": 1})", "f")->eos_tokens, ElementsAre(1));
  EXPECT_EQ(ParseGenerationConfig(R"({"temperature": null})", "f")->temperature, 1);
  EXPECT_TRUE(ParseGenerationConfig("{}", "f")->thinks) << "as DeepSeek-V4 does";
  EXPECT_FALSE(ParseGenerationConfig(R"({"thinks": false})", "f")->thinks);
  for (const char* bad :
       {"", "[]", R"({"temperature": -1})", R"({"temperature": "1"})", R"({"temperature": 3})",
        R"({"top_p": -1})", R"({"top_p": 1.5})", R"({"thinks": "no"})", R"({"eos_token_id": -1})",
        R"({"eos_token_id": 4294967296})", R"({"eos_token_id": "x"})",
        R"({"eos_token_id": [[1]]})"}) {
    const auto refused = ParseGenerationConfig(bad, "file.json");
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message, ::testing::StartsWith("file.json: "));
  }
}

// serve, chat and batch ask this.
TEST(DefaultThinkingTest, TheCheckpointDecidesUnlessTheUserDoes) {
  const GenerationConfig learned;
  const GenerationConfig fairy = {.thinks = false};
  EXPECT_EQ(DefaultThinking(std::nullopt, learned), ThinkingMode::kThinking);
  EXPECT_EQ(DefaultThinking(std::nullopt, fairy), ThinkingMode::kChat);
  EXPECT_EQ(DefaultThinking(true, fairy), ThinkingMode::kThinking);
  EXPECT_EQ(DefaultThinking(false, learned), ThinkingMode::kChat);
}

TEST(ChatFileTest, WithoutAModeTheCheckpointDecides) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(SaveChat(directory.path() / "chat", {.messages = {{.content = "Hi"}}}));
  const Result<SavedChat> loaded = LoadChat(directory.path() / "chat");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->think, std::nullopt);
}

TEST(ChatFileTest, RoundTrip) {
  const testing::TemporaryDirectory directory;
  const SavedChat chat = {
      .think = Think::kMax,
      .messages = {{.role = Role::kSystem, .content = "Be \"brief\"\n\xE2\x82\xAC"},
                   {.role = Role::kUser, .content = " Hi "},
                   {.role = Role::kAssistant, .content = "Ho", .reasoning_content = "Hm\n"}}};
  ASSERT_TRUE(SaveChat(directory.path() / "chat", chat));
  const Result<SavedChat> loaded = LoadChat(directory.path() / "chat");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->think, Think::kMax);
  ASSERT_EQ(loaded->messages.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loaded->messages[i].role, chat.messages[i].role);
    EXPECT_EQ(loaded->messages[i].content, chat.messages[i].content);
    EXPECT_EQ(loaded->messages[i].reasoning_content, chat.messages[i].reasoning_content);
  }
}

TEST(ChatFileTest, FailedSaveLeavesTheOldFile) {
  const testing::TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "chat");  // cannot be replaced by a file
  EXPECT_FALSE(SaveChat(directory.path() / "chat", {}));
  EXPECT_TRUE(std::filesystem::is_directory(directory.path() / "chat"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

}  // namespace
}  // namespace fathom::cli
