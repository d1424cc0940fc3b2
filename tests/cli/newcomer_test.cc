// Habits that newcomers bring from other programs, and the sentences that set them right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/fairy_copy.h"
#include "tests/cli/program.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

ProgramRun GenerateOnce(const std::filesystem::path& model) {
  return RunProgram({"generate", "Once", "-n", "1", "--model", model});
}

TEST(NewcomerTest, ADirectoryNeedsNoOption) {
  const FairyCopy fairy;
  const ProgramRun chat = RunProgram({"chat", fairy.path(), "--log-level", "info", "-n", "1"},
                                     {.standard_input = "Hi\n"});
  EXPECT_EQ(chat.exit_code, 0) << chat.error;
  EXPECT_THAT(chat.error, HasSubstr(fairy.path().string()));
  ExpectRefusal(RunProgram({"serve", "/no/such/model"}), 1, "/no/such/model: no such model");
  ExpectRefusal(RunProgram({"serve", "--port", "0", "/no/such/model"}), 1,
                "/no/such/model: no such model");
  ExpectRefusal(RunProgram({"chat", fairy.path(), "--model", fairy.path()}), 2, "--model");
}

TEST(NewcomerTest, NamesOfRepositoriesAreNotDownloaded) {
  ExpectRefusal(GenerateOnce("deepseek-ai/DeepSeek-V4-Flash"), 1,
                "deepseek-ai/DeepSeek-V4-Flash: no such model directory; this looks like the name "
                "of a repository: download it (hf download NAME --local-dir DIR)");
  for (const char* path : {"/no/such", "./such", "nowhere", "a/b/c", "models/such"}) {
    const ProgramRun run =
        RunProgram({"-c", "cd " + ProjectPath("").string() + "; exec " + ProgramPath().string() +
                              " generate Once --model " + path},
                   {.program = "/bin/bash"});
    ExpectRefusal(run, 1, "no such model directory");
    EXPECT_THAT(run.error, Not(HasSubstr("repository"))) << path;
  }
}

TEST(NewcomerTest, GgufIsNotRead) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "flash-Q4_K.gguf";
  WriteFile(file, "GGUF");
  for (const std::filesystem::path& path : {file, directory.path()}) {
    ExpectRefusal(GenerateOnce(path), 1,
                  file.string() + ": GGUF is not read: expected the directory");
  }
}

TEST(NewcomerTest, GitLfsPointersAreNamed) {
  for (const char* name : {"tokenizer.json", "config.json", "model.safetensors.index.json",
                           "model-00002-of-00009.safetensors"}) {
    const FairyCopy fairy;
    WriteFile(fairy.Own(name), kPointer);
    const ProgramRun run = GenerateOnce(fairy.path());
    ExpectRefusal(run, 1, std::string(name) + ": a Git LFS pointer, not the file itself; git lfs");
    EXPECT_THAT(run.error, Not(HasSubstr("expected a header")));
  }
}

// A clone without Git LFS, and a link of a hub's cache whose download was interrupted.
TEST(NewcomerTest, AShardThatCannotBeReadIsOneProblem) {
  constexpr const char* kShard = "model-00002-of-00009.safetensors";
  const FairyCopy pointer;
  WriteFile(pointer.Own(kShard), kPointer);
  const FairyCopy link;
  std::filesystem::remove(link.Own(kShard));
  std::filesystem::create_symlink("../../blobs/0123abc", link.path() / kShard);
  const std::pair<std::filesystem::path, std::string> cases[] = {
      {pointer.path(), ": a Git LFS pointer, not the file itself"},
      {link.path(), ": a link to ../../blobs/0123abc, which does not exist"}};
  for (const auto& [path, reason] : cases) {
    const ProgramRun run = RunProgram({"inspect", path});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.out, AllOf(HasSubstr(kShard + reason), HasSubstr("tensors could not be read"),
                               Not(HasSubstr("missing"))));
    EXPECT_THAT(GenerateOnce(path).error, HasSubstr(kShard + reason));
  }
}

TEST(NewcomerTest, TheSnapshotOfACacheIsNamed) {
  const TemporaryDirectory cache;
  const std::filesystem::path model = cache.path() / "models--deepseek-ai--DeepSeek-V4-Flash";
  const std::filesystem::path snapshot = model / "snapshots/0123abc";
  std::filesystem::create_directories(snapshot);
  LinkFiles(ProjectPath("models/fairy"), snapshot);
  ExpectRefusal(GenerateOnce(model), 1,
                model.string() +
                    ": a folder of a hub's cache: the model is in its snapshot, "
                    "--model " +
                    snapshot.string());
  EXPECT_EQ(GenerateOnce(snapshot).exit_code, 0);
}

TEST(NewcomerTest, RanksAreStartedByLaunch) {
  ExpectRefusal(
      RunProgram({"serve", "--port", "0", "--log-level", "error", "--tensor-parallel-size", "2"}),
      1,
      "--tp times --pp: expected the number of ranks, 1, found 2 times 1; fathom launch "
      "-n 2 COMMAND starts 2 ranks on this machine");
  ExpectRefusal(RunProgram({"generate", "x", "--tp", "2", "--pp", "2"}), 1, "fathom launch -n 4 ");
}

TEST(NewcomerTest, TooLittleMemoryNamesTheOptions) {
  ExpectRefusal(RunProgram({"serve", "--port", "0", "--log-level", "error", "--memory", "1K"}), 1,
                "memory of the host for caches: expected at least ");
  const ProgramRun run =
      RunProgram({"serve", "--port", "0", "--log-level", "error", "--memory", "1K"});
  EXPECT_THAT(run.error, AllOf(HasSubstr(" MB ("), HasSubstr("--memory or --kv-memory has to be "
                                                             "larger, or --context or "
                                                             "--max-sequences smaller")));
  const ProgramRun limited = RunProgram({"-c", "ulimit -v 1500000; exec " + ProgramPath().string() +
                                                   " serve --port 0 --threads 1 --log-level error"},
                                        {.program = "/bin/bash"});
  ExpectRefusal(limited, 1, "caches of 32 sequences of 65536 positions: cannot allocate ");
  EXPECT_THAT(limited.error, HasSubstr("smaller values of --max-sequences, --context"));
}

TEST(NewcomerTest, WrongSettingsOfTheEnvironmentAreNamed) {
  ExpectRefusal(RunProgram({"serve"}, {.environment = {"FATHOM_PORT=http"}}), 2,
                "FATHOM_PORT: expected a whole number from 0 to 65535, found \"http\"");
  ExpectRefusal(RunProgram({"serve"}, {.environment = {"FATHOM_CONFIG=/no/such/file"}}), 2,
                "FATHOM_CONFIG: /no/such/file");
  ExpectRefusal(RunProgram({"serve"}, {.environment = {"FATHOM_CONFIG=" + ProgramPath().string()}}),
                2, "FATHOM_CONFIG: " + ProgramPath().string());
  ExpectRefusal(RunProgram({"serve", "--config", "/no/such/file"},
                           {.environment = {"FATHOM_CONFIG=/no/other/file"}}),
                2, "--config: /no/such/file");
  EXPECT_EQ(RunProgram({"version"}, {.environment = {"FATHOM_PORT=http"}}).exit_code, 0);
}

}  // namespace
}  // namespace fathom::testing
