#include "runtime/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::runtime {
namespace {

using ::testing::ElementsAre;

// Returns the end tokens of the embedded model with these fields in its files; null: none.
std::vector<Token> EosTokensWith(const nlohmann::json& in_config,
                                 const nlohmann::json& in_generation_config) {
  const testing::TemporaryDirectory directory;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectPath("models/fairy"))) {
    std::filesystem::create_symlink(entry.path(), directory.path() / entry.path().filename());
  }
  const auto set = [&](const std::string& name, const nlohmann::json& eos) {
    const std::filesystem::path file = directory.path() / name;
    nlohmann::json json = nlohmann::json::parse(testing::ReadFile(file));
    if (eos.is_null()) {
      json.erase("eos_token_id");
    } else {
      json["eos_token_id"] = eos;
    }
    std::filesystem::remove(file);
    testing::WriteFile(file, json.dump());
  };
  set("config.json", in_config);
  set("generation_config.json", in_generation_config);
  const Result<ModelFiles> files = ModelFiles::Read(directory.path());
  EXPECT_TRUE(files) << (files ? "" : files.error().message);
  return files ? files->EosTokens() : std::vector<Token>();
}

TEST(ModelFilesTest, EndTokensOfBothFilesOnceEach) {
  EXPECT_THAT(EosTokensWith(1, nullptr), ElementsAre(1));
  EXPECT_THAT(EosTokensWith(1, 1), ElementsAre(1));
  EXPECT_THAT(EosTokensWith({1, 17, 1, 9}, nullptr), ElementsAre(1, 17, 9));
  EXPECT_THAT(EosTokensWith({1, 17}, {5, 17}), ElementsAre(5, 17, 1));
}

}  // namespace
}  // namespace fathom::runtime
