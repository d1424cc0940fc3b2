#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "checkpoint/safetensors.h"
#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::IsEmpty;

std::string LogitTokens(int n_tokens) {
  std::string tokens = "0";
  for (int i = 1; i < n_tokens; ++i) {
    tokens += (i % 3 == 0 ? ", " : " ") + std::to_string((i * 2654435761u >> 7) % 4000);
  }
  return tokens;
}

class LogitsTest : public ::testing::Test {
 protected:
  // The bytes of the file that logits writes with these options.
  std::string Logits(const std::string& tokens, std::vector<std::string> options) {
    const std::string out = directory_.path() / "out.safetensors";
    options.insert(options.begin(), {"logits", "--tokens", tokens, "--out", out});
    const ProgramRun run = RunProgram(options);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    EXPECT_EQ(run.out, "");
    std::string bytes = ReadFile(out);
    std::filesystem::remove(out);
    return bytes;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      files.push_back(entry.path().filename());
    }
    return files;
  }

  const TemporaryDirectory directory_;
};

TEST_F(LogitsTest, FileHasTheDeclaredShapes) {
  const std::string out = directory_.path() / "out.safetensors";
  const ProgramRun run = RunProgram({"logits", "--tokens", LogitTokens(10), "--mtp", "--out", out});
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const Result<Checkpoint> file = Checkpoint::Open(out);
  ASSERT_TRUE(file) << file.error().message;
  const TensorView* logits = file->Find("logits");
  const TensorView* mtp_logits = file->Find("mtp_logits");
  ASSERT_TRUE(logits != nullptr && mtp_logits != nullptr);
  EXPECT_EQ(logits->dtype, DType::kF32);
  EXPECT_THAT(logits->shape, ::testing::ElementsAre(10, 4096));
  EXPECT_THAT(mtp_logits->shape, ::testing::ElementsAre(9, 4096));
  EXPECT_THAT(Files(), ::testing::ElementsAre("out.safetensors"));
}

TEST_F(LogitsTest, BytesDoNotDependOnHowTheyAreComputed) {
  // 150 tokens: beyond the window of 64 and the first row of the ratio-128 layers.
  const std::string tokens = LogitTokens(150);
  const std::string expected = Logits(tokens, {"--mtp"});
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--chunk", "1"},
                                             {"--chunk", "2"},
                                             {"--chunk", "7"},
                                             {"--chunk", "64"},
                                             {"--chunk", "128"},
                                             {"--chunk", "129", "--threads", "3"},
                                             {"--prefill", "100", "--chunk", "33"},
                                             {"--prefill", "0"},
                                             {"--threads", "1"},
                                             {"--threads", "2", "--chunk", "40"},
                                             {"--cpu-isa", "scalar", "--chunk", "50"}}) {
    std::vector<std::string> with_mtp = options;
    with_mtp.emplace_back("--mtp");
    EXPECT_TRUE(Logits(tokens, with_mtp) == expected) << ::testing::PrintToString(options);
  }
}

TEST_F(LogitsTest, EveryInstructionSetOfThisMachineAgrees) {
  const std::string version = RunProgram({"--version"}).out;
  const std::string present = version.substr(version.find("present"));
  const std::string expected = Logits(LogitTokens(70), {"--mtp", "--cpu-isa", "scalar"});
  for (const char* isa : {"avx2", "avx512", "avx512_bf16", "amx"}) {
    const std::vector<std::string> options = {"--mtp", "--cpu-isa", isa, "--chunk", "9"};
    if (present.find(isa) != std::string::npos) {
      EXPECT_TRUE(Logits(LogitTokens(70), options) == expected) << isa;
    } else {
      const ProgramRun run = RunProgram(
          {"logits", "--tokens", "1", "--out", directory_.path() / "out", "--cpu-isa", isa});
      ExpectRefusal(run, 1, isa);
    }
  }
}

TEST_F(LogitsTest, ReadsLongFilesOfIds) {
  const std::string file = directory_.path() / "ids.txt";
  const std::string tokens = LogitTokens(600);
  std::ofstream(file) << tokens << "\n";
  EXPECT_TRUE(Logits(file, {"--chunk", "200"}) == Logits(tokens, {}));
}

TEST_F(LogitsTest, RefusesBadTokensBeforeAnythingIsWritten) {
  const std::string out = directory_.path() / "out";
  const auto logits = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"logits", "--out", out});
    return RunProgram(options);
  };
  ExpectRefusal(logits({"--tokens", "1 4096"}), 1, "from 0 to 4095, found 4096");
  ExpectRefusal(logits({"--tokens", "-1"}), 1, "found -1");
  ExpectRefusal(logits({"--tokens", "no-such-file"}), 1, "no-such-file");
  ExpectRefusal(logits({"--tokens", ""}), 1, "found none");
  ExpectRefusal(logits({"--tokens", "1 2", "--prefill", "3"}), 1, "--prefill: expected at most 2");
  ExpectRefusal(logits({"--tokens", "1", "--mtp"}), 1, "--mtp");
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(LogitsTest, UnwritableOutputIsNamedAtOnce) {
  const std::string missing = directory_.path() / "no" / "out";
  ExpectRefusal(RunProgram({"logits", "--tokens", "1", "--out", missing}), 1, "no");
  ExpectRefusal(RunProgram({"logits", "--tokens", "1", "--out", directory_.path()}), 1,
                "found a directory");
  EXPECT_THAT(Files(), IsEmpty());
  const std::string pipe = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefusal(RunProgram({"logits", "--tokens", "1", "--out", pipe}), 1, "found a pipe");
}

TEST_F(LogitsTest, InterruptionLeavesNothingBehind) {
  const std::string ids = directory_.path() / "ids";
  std::ofstream(ids) << LogitTokens(20000);  // one by one: longer than anybody waits
  const std::string script = fmt::format(
      "'{}' logits --tokens '{}' --chunk 1 --mtp --out '{}' & sleep 0.5; kill -INT $!; wait $!",
      ProgramPath().string(), ids, (directory_.path() / "out").string());
  ExpectRefusal(RunProgram({"-c", script}, {.program = "/bin/bash"}), 1, "interrupted after ");
  EXPECT_THAT(Files(), ::testing::ElementsAre("ids"));
}

TEST_F(LogitsTest, OldFileStaysIfNothingNewIsWritten) {
  const std::string out = directory_.path() / "out";
  std::ofstream(out) << "old";
  const ProgramRun run = RunProgram(
      {"logits", "--tokens", "1 2", "--mtp", "--out", out, "--model", directory_.path()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(ReadFile(out), "old");
  EXPECT_THAT(Files(), ::testing::ElementsAre("out"));
}

}  // namespace
}  // namespace fathom::testing
