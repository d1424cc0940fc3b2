// make-slice and what the other commands make of a slice. True shapes take hundreds of megabytes,
// so the slice that is run is a tiny one, by the same function the command calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "measure/slice/write_slice.h"
#include "model/draft/dspark.h"
#include "model/draft/mtp.h"
#include "tests/cli/program.h"
#include "tests/measure/slice/tiny.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

// The arguments of a good call, except for one option.
std::vector<std::string> Arguments(const std::filesystem::path& out, const std::string& option,
                                   const std::string& value) {
  std::vector<std::string> arguments = {"make-slice"};
  for (const auto& [name, good] :
       {std::pair<std::string, std::string>("--shape", "flash"), {"--layers", "4"}}) {
    arguments.insert(arguments.end(), {name, name == option ? value : good});
  }
  if (option != "--shape" && option != "--layers") {
    arguments.insert(arguments.end(), {option, value});
  }
  arguments.insert(arguments.end(), {"--out", out.string()});
  return arguments;
}

TEST(MakeSliceTest, BadOptionsAreExplained) {
  const TemporaryDirectory parent;
  WriteFile(parent.path() / "file", "");
  const std::filesystem::path out = parent.path() / "file" / "slice";  // nothing can be made there
  struct Case {
    const char* option;
    const char* value;
    const char* message;
  };
  for (const auto& [option, value, message] : {
           Case{"--shape", "mini", "expected one of flash pro, found \"mini\""},
           Case{"--layers", "4,5", "ratios of 0, 4 or 128 separated by commas, found \"4,5\""},
           Case{"--layers", "4,,128", "found \"4,,128\""},
           Case{"--layers", "4,", "found \"4,\""},
           Case{"--layers", "", "--layers"},
           Case{"--experts", "3", "found \"3\""},
           Case{"--experts", "many", "found \"many\""},
           Case{"--vocab", "200", "found \"200\""},
           Case{"--vocab", "1000000", "found \"1000000\""},
           Case{"--seed", "-1", "found \"-1\""},
           Case{"--threads", "0", "found \"0\""},
           Case{"--draft", "medusa", "expected one of none mtp dspark, found \"medusa\""},
       }) {
    const ProgramRun run = RunProgram(Arguments(out, option, value));
    ExpectRefusal(run, 2, message);
    EXPECT_THAT(run.error, HasSubstr(option));
  }
  ExpectRefusal(RunProgram({"make-slice"}), 2, "required");
}

TEST(MakeSliceTest, WhatIsThereIsNotTouched) {
  const TemporaryDirectory out;
  WriteFile(out.path() / "notes.txt", "mine");
  ExpectRefusal(RunProgram(Arguments(out.path(), "--layers", "4,128")), 1,
                "expected an empty directory or none, found notes.txt in it");
  EXPECT_EQ(ReadFile(out.path() / "notes.txt"), "mine");
}

class TinySlice : public ::testing::TestWithParam<const DrafterKind*> {
 protected:
  void SetUp() override {
    ThreadTeam team(2);
    const SliceOptions options = {
        .config = TinyConfig({.ratios = {0, 4, 128}, .vocab_size = 512, .draft = GetParam()}),
        .seed = 3};
    const Result<SliceSummary> written = WriteSlice(directory_.path(), options, team, {});
    ASSERT_TRUE(written) << written.error().message;
  }
  std::string path() const { return directory_.path().string(); }

 private:
  TemporaryDirectory directory_;
};

TEST_P(TinySlice, IsAFlawlessCheckpoint) {
  const ProgramRun run = RunProgram({"inspect", "--deep", "--json", path()});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  const nlohmann::json report = ParseOutput(run);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["warnings"].size(), 0u);
}

TEST_P(TinySlice, GeneratesAndChats) {
  const ProgramRun text =
      RunProgram({"generate", "--model", path(), "-n", "8", "--ignore-eos", "--json", "hello"});
  EXPECT_EQ(text.exit_code, 0) << text.error;
  const ProgramRun ids = RunProgram({"encode", "--model", path(), "--ids", "-"},
                                    {.standard_input = R"([{"role":"user","content":"Hi"}])"});
  EXPECT_EQ(ids.exit_code, 0) << ids.error;
  const ProgramRun answer =
      RunProgram({"chat", "--model", path(), "-n", "4"}, {.standard_input = "Hi\n"});
  EXPECT_EQ(answer.exit_code, 0) << answer.error;
}

INSTANTIATE_TEST_SUITE_P(Heads, TinySlice,
                         ::testing::Values(nullptr, &kMtpDrafter, &kDSparkDrafter),
                         [](const auto& test) {
                           return std::string(DraftHead{test.param}.name());
                         });

}  // namespace
}  // namespace fathom::testing
