// Something else than a file where a file is read: an error at once, never a wait or an abort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/fairy_copy.h"
#include "tests/cli/program.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Ends what hangs: exit code 124.
ProgramRun RunInTime(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"30", ProgramPath()});
  return RunProgram(arguments, {.standard_input = input, .program = "/usr/bin/timeout"});
}

void Replace(const std::filesystem::path& file, const std::string& kind) {
  std::filesystem::remove(file);
  if (kind == "pipe") {
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  } else if (kind == "directory") {
    std::filesystem::create_directory(file);
  } else {
    std::filesystem::create_symlink("/dev/zero", file);
  }
}

TEST(HostileFilesTest, CheckpointsHaveRegularFilesOnly) {
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                           "model.safetensors.index.json", "model-00003-of-00009.safetensors"}) {
    for (const char* kind : {"pipe", "directory", "device"}) {
      const FairyCopy copy;
      Replace(copy.path() / name, kind);
      for (const std::vector<std::string>& command :
           {std::vector<std::string>{"generate", "Once", "-n", "1", "--model"},
            std::vector<std::string>{"inspect"}}) {
        std::vector<std::string> words = command;
        words.push_back(copy.path());
        const ProgramRun run = RunInTime(words);
        EXPECT_EQ(run.exit_code, 1) << name << " " << kind << " " << command[0];
        EXPECT_THAT(run.out + run.error,
                    AllOf(HasSubstr(name), HasSubstr(std::string("found a ") + kind)));
      }
    }
  }
}

TEST(HostileFilesTest, ADeviceIsNoFileOfAUser) {
  const TemporaryDirectory directory;
  const std::vector<std::vector<std::string>> calls = {
      {"serve", "--port", "0", "--config", "/dev/zero"},
      {"serve", "--port", "0", "--api-key-file", "/dev/zero"},
      {"serve", "--port", "0", "--admin-key-file", "/dev/zero"},
      {"batch", "/dev/zero", directory.path() / "out"},
      {"encode", "/dev/zero"},
      {"parse", "/dev/zero"},
      {"tokenize", "--decode", "/dev/zero"},
      {"logits", "--tokens", "/dev/zero", "--out", directory.path() / "out"},
      {"plan", "--hardware", "/dev/zero"},
  };
  for (const std::vector<std::string>& call : calls) {
    const ProgramRun run = RunInTime(call);
    EXPECT_GT(run.exit_code, 0) << run.error;
    EXPECT_LT(run.exit_code, 3) << run.error;
    EXPECT_THAT(run.error,
                HasSubstr("/dev/zero: expected a regular file or a pipe, found a device"))
        << call[0];
  }
  const ProgramRun chat = RunInTime({"chat"}, "/load /dev/zero\n");
  EXPECT_EQ(chat.exit_code, 1);
  EXPECT_THAT(chat.error, HasSubstr("found a device"));
}

TEST(HostileFilesTest, StandardInputHasAnEnd) {
  const ProgramRun run =
      RunProgram({"-c", "head -c 40000000 /dev/zero | timeout 30 " + ProgramPath().string() +
                            " serve --port 0 --api-key-file -"},
                 {.program = "/bin/bash"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.error, HasSubstr("standard input: expected at most 16777216 bytes, found more"));
}

TEST(HostileFilesTest, AShellMayGiveAPipe) {
  const ProgramRun run =
      RunProgram({"-c", ProgramPath().string() +
                            " encode <(echo '[{\"role\": \"user\", \"content\": \"Hi\"}]')"},
                 {.program = "/bin/bash"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_THAT(run.out, HasSubstr("Hi"));
}

TEST(HostileFilesTest, ASmallStackIsSaid) {
  for (const char* kibibytes : {"64", "512"}) {
    const ProgramRun run = RunProgram({"-c", std::string("ulimit -s ") + kibibytes + "; exec " +
                                                 ProgramPath().string() + " generate Once -n 1"},
                                      {.program = "/bin/bash"});
    ExpectRefusal(run, 1,
                  std::string("stack: expected at least 2048 KiB (ulimit -s), found ") + kibibytes);
  }
}

}  // namespace
}  // namespace fathom::testing
