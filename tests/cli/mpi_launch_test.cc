// Ranks that mpirun starts: the same bytes as from one process, and one message when something goes
// wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/build_info.h"
#include "tests/cli/launch_fixture.h"
#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

// mpirun and what it is told so that it starts more ranks than there are cores, in any container.
class MpiTest : public LaunchTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(ProgramPath().parent_path() / "fathom_mpi.so") ||
        !std::filesystem::exists(kMpirun)) {
      GTEST_SKIP() << "this build has no MPI: libopenmpi-dev and openmpi-bin were not installed";
    }
  }

  static std::vector<std::string> Words(std::vector<std::string> words) {
    words.insert(words.begin(), {"--allow-run-as-root", "--oversubscribe"});
    return words;
  }
  // Returns our lines in the output of mpirun and the ranks.
  static std::vector<std::string> ErrorsIn(const std::string& text) {
    std::vector<std::string> errors;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("fathom: error: ")) errors.push_back(line);
    }
    return errors;
  }

  static constexpr const char* kMpirun = "/usr/bin/mpirun";
};

TEST_F(MpiTest, WritesTheSameBytes) {
  const std::string alone = Logits({}, {});
  for (const std::vector<std::string>& cut :
       std::vector<std::vector<std::string>>{{"2"},
                                             {"2", "--decode-context-parallel"},
                                             {"4", "--tp", "2", "--pp", "2"},
                                             {"4", "--dp-attention"}}) {
    const std::string found =
        Logits(Words({"-n", cut[0], ProgramPath()}), {cut.begin() + 1, cut.end()}, kMpirun);
    EXPECT_TRUE(found == alone) << fmt::format("{} ranks", cut[0]);
  }
}

// Hydra, for example, where the module was built with Open MPI.
TEST_F(MpiTest, AnMpirunOfAnotherMpiIsNamedOnce) {
  const std::vector<std::string> words = {"generate", "Once", "-n", "1"};
  const ProgramRun first = RunProgram(words, {.environment = {"PMI_SIZE=2", "PMI_RANK=0"}});
  ExpectRefusal(first, 1, "started as one of 2 processes, but the MPI of this build sees 1");
  const ProgramRun second = RunProgram(words, {.environment = {"PMI_SIZE=2", "PMI_RANK=1"}});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(ErrorsIn(second.error).size(), 0u) << second.error;
  EXPECT_EQ(second.out, "");
}

TEST_F(MpiTest, RanksThatDifferAreNamed) {
  const std::vector<std::string> same = {"logits", "--tokens", "1 2 3", "--out", out().string()};
  const auto differ = [&](const std::vector<std::string>& options, std::string_view part) {
    std::vector<std::string> words = Words({"-n", "1", ProgramPath()});
    words.insert(words.end(), same.begin(), same.end());
    words.insert(words.end(), {":", "-n", "1", ProgramPath()});
    words.insert(words.end(), same.begin(), same.end());
    words.insert(words.end(), options.begin(), options.end());
    const ProgramRun run = RunProgram(words, {.program = kMpirun});
    EXPECT_NE(run.exit_code, 0);
    const std::vector<std::string> errors = ErrorsIn(run.error);
    ASSERT_EQ(errors.size(), 1u) << run.error;
    EXPECT_NE(errors[0].find(part), std::string::npos) << errors[0];
    EXPECT_FALSE(std::filesystem::exists(out()));
  };
  differ({"--pp", "2"}, "rank 1: expected the options of rank 0");
  if (const auto other = SharedData("oracle/flash-mini"); other) {
    differ({"--model", *other}, "rank 1: expected the model of rank 0");
  }
  differ({"--model", "nowhere"}, "rank 1: ");
}

TEST_F(MpiTest, AModuleOfAnotherBuildIsRefused) {
  constexpr std::string_view kModule = "fathom_mpi.so";
  const std::filesystem::path program = directory_.path() / "fathom";
  const std::filesystem::path module = directory_.path() / kModule;
  std::filesystem::copy_file(ProgramPath(), program);
  std::string bytes = ReadFile(ProgramPath().parent_path() / kModule);
  // The digest is the only run of 64 lower-case hexadecimal digits.
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const auto digest = std::search_n(bytes.begin(), bytes.end(), 64, true,
                                    [&](char c, bool) { return is_digit(c); });
  ASSERT_NE(digest, bytes.end());
  *digest = *digest == '0' ? '1' : '0';
  WriteFile(module, bytes);
  std::vector<std::string> words = Words({"-n", "2", program});
  words.insert(words.end(), {"logits", "--tokens", "1 2 3", "--out", out().string()});
  const ProgramRun run = RunProgram(words, {.program = kMpirun});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.error.find("fathom_mpi.so: expected the module of the same build"),
            std::string::npos)
      << run.error;
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(MpiTest, ARankOfAnotherBuildIsNamed) {
  // A copy that differs in the one place that says from which sources it was built.
  const std::filesystem::path other = directory_.path() / "fathom";
  std::string bytes = ReadFile(ProgramPath());
  const std::string commit = std::string(GetBuildInfo().commit) + '\0';
  std::size_t at = bytes.find(commit);
  ASSERT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = bytes.find(commit, at)) {
    bytes[at] = 'x';
  }
  WriteFile(other, bytes);
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(ProgramPath().parent_path() / "fathom_mpi.so",
                                  directory_.path() / "fathom_mpi.so");
  const std::vector<std::vector<std::string>> commands = {
      {"logits", "--tokens", "1 2 3", "--out", out().string()},
      {"generate", "-n", "4", "Once upon a time"},
      {"serve", "--port", "0"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> words = Words({"-n", "1", ProgramPath()});
    words.insert(words.end(), command.begin(), command.end());
    words.insert(words.end(), {":", "-n", "1", other});
    words.insert(words.end(), command.begin(), command.end());
    const auto start = std::chrono::steady_clock::now();
    const ProgramRun run = RunProgram(words, {.program = kMpirun});
    EXPECT_LE(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_NE(run.exit_code, 0);
    EXPECT_EQ(run.out, "");
    const std::vector<std::string> errors = ErrorsIn(run.error);
    ASSERT_EQ(errors.size(), 1u) << run.error;
    EXPECT_NE(
        errors[0].find(fmt::format(
            "rank 1: expected the program of rank 0, \"fathom {} {}\", found \"fathom {} x{}\"",
            GetBuildInfo().version, GetBuildInfo().commit, GetBuildInfo().version,
            GetBuildInfo().commit.substr(1))),
        std::string::npos)
        << errors[0];
    EXPECT_FALSE(std::filesystem::exists(out()));
  }
}

TEST_F(MpiTest, ARankWithoutMemoryEndsAll) {
  for (const std::size_t rank : {0u, 1u}) {
    std::chrono::seconds took{};
    const ProgramRun run = RunOutOfMemory(rank, &took, Words({"-n", "2", ProgramPath()}), kMpirun);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_LE(took.count(), 10);
    const std::vector<std::string> errors = ErrorsIn(run.error);
    ASSERT_EQ(errors.size(), 1u) << run.error;
    EXPECT_TRUE(SaysNoMemory(errors[0], rank)) << errors[0];
    EXPECT_FALSE(std::filesystem::exists(out()));
  }
}

TEST_F(MpiTest, ARankThatIsStoppedEndsAll) {
  std::chrono::seconds took{};
  const ProgramRun run = RunAndSignal(SIGSTOP, &took, Words({"-n", "2", ProgramPath()}), kMpirun);
  EXPECT_NE(run.exit_code, 0);
  EXPECT_LE(took.count(), 10);
  const std::vector<std::string> errors = ErrorsIn(run.error);
  ASSERT_EQ(errors.size(), 1u) << run.error;
  EXPECT_NE(errors[0].find("has said nothing for 5 s"), std::string::npos) << errors[0];
}

}  // namespace
}  // namespace fathom::testing
