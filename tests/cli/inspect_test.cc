#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A copy of the embedded model whose files are links, to break one of them.
class FairyCopy {
 public:
  FairyCopy() {
    for (const auto& entry : std::filesystem::directory_iterator(ProjectPath("models/fairy"))) {
      std::filesystem::create_symlink(entry.path(), path() / entry.path().filename());
    }
  }
  std::filesystem::path path() const { return directory_.path(); }
  // A file that may be changed without changing the original.
  std::filesystem::path Own(const std::string& name) const {
    const std::filesystem::path file = path() / name;
    const std::string bytes = ReadFile(file);
    std::filesystem::remove(file);
    WriteFile(file, bytes);
    return file;
  }

 private:
  TemporaryDirectory directory_;
};

json InspectJson(const std::filesystem::path& directory, int exit_code = 0) {
  const ProgramRun run = RunProgram({"inspect", "--json", directory});
  EXPECT_EQ(run.exit_code, exit_code) << run.error;
  return ParseOutput(run);
}

TEST(InspectTest, DescribesTheEmbeddedModel) {
  const ProgramRun run = RunProgram({"inspect", "--deep"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.error, "");
  EXPECT_THAT(run.out, AllOf(HasSubstr("6: 1 sliding window, 3 ratio 4 with indexer, 2 ratio 128"),
                             HasSubstr("2 hash-routed, 4 learned"),
                             HasSubstr("8 per layer (FP4), 2 per token"), HasSubstr("MTP"),
                             HasSubstr("596 in 9 files, 17,164,792 bytes"),
                             HasSubstr("per 1,000 tokens"), HasSubstr("problems      none")));
}

TEST(InspectTest, JsonHasTheSameNumbers) {
  const json object = InspectJson(ProjectPath("models/fairy"));
  EXPECT_EQ(object["ok"], true);
  EXPECT_EQ(object["tensors"], 596);
  EXPECT_EQ(object["bytes"], 17164792);
  EXPECT_EQ(object["dtypes"]["I64"], json({{"tensors", 2}, {"bytes", 131072}}));
  EXPECT_EQ(object["layers"]["ratio_4"], 3);
  EXPECT_EQ(object["draft_head"]["kind"], "MTP");
  // 3 layers of ratio 4: (200 + 68) / 4 bytes per token; 2 of ratio 128: 200 / 128.
  EXPECT_EQ(object["memory"]["kv_bytes_per_1000_tokens"], 1000 * 3 * 67 + 2 * 1000 * 200 / 128);
}

TEST(InspectTest, OracleCheckpointsHaveNoProblems) {
  for (const char* name : {"flash-mini", "pro-mini", "base-mini"}) {
    const auto path = SharedData(std::string("oracle/") + name);
    if (!path) GTEST_SKIP() << kNoSharedData;
    const json object = InspectJson(*path);
    EXPECT_EQ(object["problems"], json::array()) << name;
    EXPECT_EQ(object["draft_head"]["kind"], "MTP");
    EXPECT_GT(object["experts"][std::string(name) == "base-mini" ? "fp8" : "fp4"], 0);
  }
}

struct FullSize {
  const char* config;
  HeadKind head;
  int n_stages;
  std::int64_t n_tensors;
  std::int64_t bytes;
};

class FullSizeTest : public ::testing::TestWithParam<FullSize> {};

TEST_P(FullSizeTest, CountsMatchThePublishedOnes) {
  const auto config = SharedData(std::string("data/tokenizer/") + GetParam().config);
  if (!config) GTEST_SKIP() << kNoSharedData;
  const TemporaryDirectory directory;
  WriteSparseCheckpoint(directory.path(), ReadFile(*config),
                        {.head = GetParam().head, .n_draft_stages = GetParam().n_stages});
  const auto start = std::chrono::steady_clock::now();
  const json object = InspectJson(directory.path());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_EQ(object["tensors"], GetParam().n_tensors);
  EXPECT_EQ(object["bytes"], GetParam().bytes);
  EXPECT_EQ(object["problems"], json::array());
  EXPECT_EQ(object["draft_head"]["stages"], GetParam().n_stages);
}

INSTANTIATE_TEST_SUITE_P(Published, FullSizeTest,
                         ::testing::Values(FullSize{"config.DeepSeek-V4-Flash.json", HeadKind::kMtp,
                                                    1, 69187, 159609485896},
                                           FullSize{"config.DeepSeek-V4-Flash-0731.json",
                                                    HeadKind::kDSpark, 3, 72317, 166878536440},
                                           FullSize{"config.DeepSeek-V4-Pro.json", HeadKind::kMtp,
                                                    1, 145116, 864704792696}));

TEST(InspectTest, ListsEverythingThatIsWrong) {
  const FairyCopy copy;
  std::filesystem::remove(copy.path() / "model-00003-of-00009.safetensors");
  const std::filesystem::path cut = copy.Own("model-00005-of-00009.safetensors");
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 1000);
  const ProgramRun run = RunProgram({"inspect", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("model-00003-of-00009.safetensors"),
                             HasSubstr("model-00005-of-00009.safetensors"),
                             HasSubstr("problems with the tensors"), HasSubstr("more")));
  EXPECT_THAT(run.error, HasSubstr("problems\n"));
  const json object = InspectJson(copy.path(), 1);
  EXPECT_EQ(object["ok"], false);
  EXPECT_GT(object["problems"].size(), 20u);
}

TEST(InspectTest, BrokenConfigurationIsNamedWithTheRest) {
  const FairyCopy copy;
  json config = json::parse(ReadFile(copy.path() / "config.json"));
  config["hidden_size"] = -256;
  WriteFile(copy.Own("config.json"), config.dump());
  const json object = InspectJson(copy.path(), 1);
  ASSERT_EQ(object["problems"].size(), 1u);
  EXPECT_EQ(object["problems"][0]["kind"], "config.json");
  EXPECT_THAT(object["problems"][0]["message"].get<std::string>(), HasSubstr("hidden_size"));
  EXPECT_EQ(object["tensors"], 596);
}

TEST(InspectTest, DeepReadsScales) {
  const FairyCopy copy;
  const std::filesystem::path shard = copy.Own("model-00002-of-00009.safetensors");
  std::string bytes = ReadFile(shard);
  const json header = json::parse(
      bytes.substr(8, static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) |
                          static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) << 8 |
                          static_cast<std::size_t>(static_cast<unsigned char>(bytes[2])) << 16));
  const std::size_t data =
      8 + (static_cast<unsigned char>(bytes[0]) |
           static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) << 8 |
           static_cast<std::size_t>(static_cast<unsigned char>(bytes[2])) << 16);
  std::string broken;
  for (const auto& [name, tensor] : header.items()) {
    if (name != "__metadata__" && tensor["dtype"] == "F8_E8M0") {
      broken = name;
      bytes[data + tensor["data_offsets"][0].get<std::size_t>()] = '\xFF';
      break;
    }
  }
  ASSERT_NE(broken, "");
  WriteFile(shard, bytes);
  EXPECT_EQ(RunProgram({"inspect", copy.path()}).exit_code, 0) << "names and shapes are right";
  const ProgramRun run = RunProgram({"inspect", "--deep", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr(broken), HasSubstr("255")));
}

TEST(InspectTest, EmptyAndMissingDirectories) {
  const TemporaryDirectory directory;
  const ProgramRun empty = RunProgram({"inspect", directory.path()});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_THAT(empty.error, HasSubstr("2 problems"));  // no tensors, no config.json
  EXPECT_THAT(empty.out, AllOf(HasSubstr("config.json"), HasSubstr("safetensors")));
  ExpectRefusal(RunProgram({"inspect", directory.path() / "x"}), 1, "no such model directory");
}

TEST(InspectTest, RefusesTheNextGenerationByName) {
  const FairyCopy copy;
  json config = json::parse(ReadFile(copy.path() / "config.json"));
  config["model_type"] = "deepseek_v41";
  WriteFile(copy.Own("config.json"), config.dump());
  const ProgramRun run = RunProgram({"inspect", copy.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("deepseek_v41"));
}

}  // namespace
}  // namespace fathom::testing
