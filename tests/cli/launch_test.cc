// Ranks as processes: the same bytes as from one, and one message when something goes wrong.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "measure/slice/write_slice.h"
#include "model/draft/dspark.h"
#include "runtime/build_info.h"
#include "tests/cli/processes.h"
#include "tests/cli/program.h"
#include "tests/measure/slice/tiny.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/locks.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

std::string SomeTokens(int n_tokens) {
  std::string tokens = "0";
  for (int i = 1; i < n_tokens; ++i) {
    tokens += " " + std::to_string((static_cast<unsigned>(i) * 2654435761u >> 7) % 4000);
  }
  return tokens;
}

// In the words of whoever asked for it: a file, a buffer, the standard library.
bool SaysNoMemory(std::string_view message, std::size_t rank) {
  return message.starts_with(fmt::format("fathom: error: rank {}: ", rank)) &&
         message.find("memory") != std::string_view::npos;
}

class LaunchTest : public ::testing::Test {
 protected:
  std::filesystem::path out() const { return directory_.path() / "out.safetensors"; }

  // The bytes of what `logits` writes with these options, behind these words.
  std::string Logits(std::vector<std::string> before, std::vector<std::string> options,
                     const std::filesystem::path& program = {}) {
    for (const char* word :
         {"logits", "--threads", "1", "--mtp", "--prefill", "140", "--chunk", "100", "--tokens"}) {
      before.emplace_back(word);
    }
    before.push_back(SomeTokens(150));
    before.insert(before.end(), {"--out", out().string()});
    before.insert(before.end(), options.begin(), options.end());
    const ProgramRun run = RunProgram(before, {.program = program});
    EXPECT_EQ(run.exit_code, 0) << run.error;
    EXPECT_EQ(run.out + run.error, "");
    std::string bytes = ReadFile(out());
    std::filesystem::remove(out());
    return bytes;
  }

  // Runs 2 ranks with these words, and calls `meet` for their processes. The time counts from this
  // call.
  ProgramRun RunAndMeet(const std::vector<std::string>& words,
                        const std::function<void(std::span<const pid_t>)>& meet,
                        std::chrono::seconds* took, const std::filesystem::path& program = {}) {
    ProgramRun run;
    std::jthread launcher([&] { run = RunProgram(words, {.program = program}); });
    // The launcher is the child of this process that has two.
    std::vector<pid_t> ranks;
    for (int i = 0; i < 1000 && ranks.size() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "children");
        for (pid_t child = 0; file >> child;) {
          if (const std::vector<pid_t> found = FindChildren(child); found.size() == 2) {
            ranks = found;
          }
        }
      }
    }
    EXPECT_EQ(ranks.size(), 2u);
    if (ranks.size() == 2) {
      meet(ranks);
    }
    const auto start = std::chrono::steady_clock::now();
    launcher.join();
    *took = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    for (const pid_t rank : ranks) {
      EXPECT_TRUE(IsGoneSoon(rank)) << "a rank that is still there";
    }
    return run;
  }

  // Sends `signal` to the second rank of a long run, once it is under way.
  ProgramRun RunAndSignal(int signal, std::chrono::seconds* took,
                          std::vector<std::string> words = {"launch", "-n", "2"},
                          const std::filesystem::path& program = {}) {
    words.insert(words.end(), {"logits", "--threads", "1", "--prefill", "0", "--tokens",
                               SomeTokens(4000), "--out", out().string()});
    const auto meet = [&](std::span<const pid_t> ranks) {
      EXPECT_TRUE(MapsSoon(ranks[1], ".safetensors")) << "ranks that have met load weights";
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(ranks[1], signal);
    };
    return RunAndMeet(words, meet, took, program);
  }

  // Denies `rank` memory from the moment it has joined, before it loads.
  ProgramRun RunOutOfMemory(std::size_t rank, std::chrono::seconds* took,
                            std::vector<std::string> words = {"launch", "-n", "2"},
                            const std::filesystem::path& program = {}) {
    const std::string saved = directory_.path() / "saved.json";
    Logits({"launch", "-n", "2"}, {"--redundant-experts", "4", "--save-expert-placement", saved});
    // The ranks have met when the first one opens this, and wait for what is in it.
    const std::string placement = directory_.path() / "placement.json";
    EXPECT_EQ(::mkfifo(placement.c_str(), 0600), 0);
    words.insert(words.end(),
                 {"logits", "--threads", "1", "--tokens", SomeTokens(9), "--out", out().string(),
                  "--redundant-experts", "4", "--expert-placement", placement});
    const auto meet = [&](std::span<const pid_t> ranks) {
      int pipe = -1;
      for (int i = 0; i < 1000 && pipe < 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        pipe = ::open(placement.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      }
      EXPECT_GE(pipe, 0);
      const auto bytes = static_cast<rlim_t>(AddressSpace(ranks[rank]));
      const rlimit limit = {bytes, bytes};
      EXPECT_EQ(::prlimit(ranks[rank], RLIMIT_AS, &limit, nullptr), 0);
      const std::string text = ReadFile(saved);
      EXPECT_EQ(::write(pipe, text.data(), text.size()), std::ssize(text));
      ::close(pipe);
    };
    ProgramRun run = RunAndMeet(words, meet, took, program);
    std::filesystem::remove(saved);
    std::filesystem::remove(placement);
    return run;
  }

  const TemporaryDirectory directory_;
};

TEST_F(LaunchTest, AnyNumberOfRanksWritesTheSameBytes) {
  const std::string alone = Logits({}, {});
  std::vector<std::vector<std::string>> cuts = {
      {"2"},
      {"2", "--tp", "2", "--ep", "1"},
      {"2", "--pp", "2"},
      {"4", "--tp", "2", "--pp", "2"},
      {"6", "--tp", "1", "--pp", "6"},
      {"2", "--expert-exchange", "gather"},
      {"4", "--dp-attention", "--expert-exchange", "fused"},
      {"4", "--dp-attention", "--pp", "2"},
      {"4", "--tp", "2", "--pp", "2", "--preload"},
      {"2", "--dp-attention", "--preload"},
      {"2", "--decode-context-parallel"},
      {"4", "--tp", "2", "--pp", "2", "--decode-context-parallel"},
      {"2", "--huge-pages"},
      {"4", "--tp", "2", "--pp", "2", "--huge-pages"},
  };
  if (MayLock(64 << 20)) {
    cuts.push_back({"2", "--lock"});
    cuts.push_back({"2", "--dp-attention", "--lock", "--huge-pages"});
  }
  for (const std::vector<std::string>& cut : cuts) {
    const std::string found = Logits({"launch", "-n", cut[0]}, {cut.begin() + 1, cut.end()});
    EXPECT_TRUE(found == alone) << fmt::format("{} ranks", cut[0]);
  }
}

// The number before `what` in each line that has it.
std::vector<double> NumbersBefore(const std::string& what, const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    numbers.push_back(std::stod(text.substr(text.rfind(' ', at - 1))));
  }
  return numbers;
}

TEST_F(LaunchTest, RanksTellHowMuchOfTheirShareIsInMemory) {
  const ProgramRun run =
      RunProgram({"launch", "-n", "2", "logits", "--threads", "1", "--preload", "--log-level",
                  "info", "--tokens", SomeTokens(20), "--out", out()});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  const std::vector<double> shares = NumbersBefore(" MB of weights, ", run.error);
  const std::vector<double> resident = NumbersBefore(" MB of weights were in memory", run.error);
  ASSERT_EQ(shares.size(), 2u) << run.error;
  ASSERT_EQ(resident.size(), 2u) << run.error;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(run.error.find(fmt::format("rank {}: in the end", rank)), std::string::npos);
    // The pieces of this model are small, and lie in whole pages.
    EXPECT_GE(resident[rank], 0.9 * shares[0]);
    EXPECT_LE(resident[rank], 1.2 * shares[0]);
  }
}

// Without the MTP head, whose logits wait for the others: the first stage is steps ahead of the
// last one, also where a step has several sets of logits (a chunk of 300) or all have one row.
TEST_F(LaunchTest, StepsInFlightWriteTheSameBytes) {
  const std::string tokens = SomeTokens(310);
  const auto logits = [&](std::vector<std::string> words, std::vector<std::string> steps) {
    words.insert(words.end(), {"logits", "--threads", "1", "--tokens", tokens, "--out", out()});
    words.insert(words.end(), steps.begin(), steps.end());
    const ProgramRun run = RunProgram(words);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return ReadFile(out());
  };
  const std::string alone = logits({}, {});
  const std::vector<std::vector<std::string>> steps = {
      {}, {"--chunk", "300"}, {"--chunk", "20"}, {"--prefill", "250", "--chunk", "70"}};
  for (const std::vector<std::string>& cut : steps) {
    std::vector<std::string> three = cut;
    std::vector<std::string> four = cut;
    three.insert(three.end(), {"--tp", "1", "--pp", "3"});
    four.insert(four.end(), {"--tp", "2", "--pp", "2"});
    EXPECT_TRUE(logits({"launch", "-n", "3"}, three) == alone) << ::testing::PrintToString(cut);
    EXPECT_TRUE(logits({"launch", "-n", "4"}, four) == alone) << ::testing::PrintToString(cut);
  }
}

TEST_F(LaunchTest, ExpertsThatMoveWriteTheSameBytes) {
  const std::string alone = Logits({}, {});
  const std::string placement = directory_.path() / "experts.json";
  const std::vector<std::string> balanced = {
      "--redundant-experts", "4", "--eplb-interval", "48", "--save-expert-placement", placement};
  EXPECT_TRUE(Logits({"launch", "-n", "2"}, balanced) == alone);
  const std::string saved = ReadFile(placement);
  EXPECT_NE(saved.find("\"physical_experts\": 12"), std::string::npos) << saved;
  EXPECT_EQ(saved.find("\"0\": [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]"), std::string::npos) << saved;
  EXPECT_TRUE(Logits({"launch", "-n", "2"},
                     {"--redundant-experts", "4", "--expert-placement", placement}) == alone);
  std::vector<std::string> staged = balanced;
  staged.insert(staged.end(), {"--tp", "2", "--pp", "2"});
  EXPECT_TRUE(Logits({"launch", "-n", "4"}, staged) == alone);
  std::vector<std::string> copied = balanced;
  copied.emplace_back("--huge-pages");
  if (MayLock(64 << 20)) copied.emplace_back("--lock");
  EXPECT_TRUE(Logits({"launch", "-n", "2"}, copied) == alone);

  const auto refusal = [&](std::vector<std::string> words, std::string_view part) {
    words.insert(words.begin(), {"launch", "-n", "2", "logits"});
    words.insert(words.end(), {"--tokens", "1 2 3", "--out", out().string()});
    ExpectRefusal(RunProgram(words), 1, part);
  };
  refusal({"--redundant-experts", "2", "--expert-placement", placement},
          "experts.json: physical_experts: expected 10, found 12");
  WriteFile(placement, "{}");
  refusal({"--redundant-experts", "4", "--expert-placement", placement}, "experts.json: format:");
  std::filesystem::remove(placement);
  refusal({"--expert-placement", placement}, "experts.json: cannot open");
  refusal({"--redundant-experts", "3"},
          "--redundant-experts: expected a number that makes 8 experts and the redundant ones a "
          "multiple of 2 (expert ranks), found 3");
  refusal({"--pp", "2", "--redundant-experts", "2"},
          "--redundant-experts: expected 0 where no ranks share the experts (--ep), found 2");
  refusal({"--pp", "2", "--eplb-interval", "2"},
          "--eplb-interval: expected ranks that share the experts (--ep), found none");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(LaunchTest, AnEngineWhoseExpertsMoveAnswersTheSame) {
  const std::vector<std::string> words = {"generate", "--threads", "1",  "--temperature",
                                          "0",        "-n",        "40", "The fox"};
  const ProgramRun alone = RunProgram(words);
  ASSERT_EQ(alone.exit_code, 0) << alone.error;
  std::vector<std::string> moving = {"launch", "-n", "2"};
  moving.insert(moving.end(), words.begin(), words.end());
  moving.insert(moving.end(), {"--redundant-experts", "2", "--eplb-interval", "8"});
  const ProgramRun run = RunProgram(moving);
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.out, alone.out);
  EXPECT_FALSE(std::filesystem::exists(out()));
  // Where they were last, from where any command can begin.
  moving.insert(moving.end(), {"--save-expert-placement", out().string()});
  const ProgramRun saving = RunProgram(moving);
  EXPECT_EQ(saving.exit_code, 0) << saving.error;
  EXPECT_EQ(saving.out, alone.out);
  EXPECT_NE(ReadFile(out()).find("\"physical_experts\": 10"), std::string::npos);
  std::vector<std::string> placed = {"launch", "-n", "2"};
  placed.insert(placed.end(), words.begin(), words.end());
  placed.insert(placed.end(), {"--redundant-experts", "2"});
  std::vector<std::string> still = placed;
  still.insert(still.end(), {"--save-expert-placement", out().string()});
  ExpectRefusal(RunProgram(still), 1, "--save-expert-placement: expected --eplb-interval");
  placed.insert(placed.end(), {"--expert-placement", out().string()});
  EXPECT_EQ(RunProgram(placed).out, alone.out);
}

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

TEST_F(LaunchTest, GenerateSaysTheSame) {
  const auto text = [](std::vector<std::string> before,
                       const std::vector<std::string>& options = {}) {
    for (const char* word :
         {"generate", "--threads", "1", "--seed", "7", "-n", "60", "Once upon a time"}) {
      before.emplace_back(word);
    }
    before.insert(before.end(), options.begin(), options.end());
    const ProgramRun run = RunProgram(before);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return run.out;
  };
  const std::string alone = text({});
  EXPECT_GT(alone.size(), 60u);
  EXPECT_EQ(text({"launch", "-n", "2"}), alone);
  EXPECT_EQ(text({"launch", "-n", "2"}, {"--dp-attention"}), alone);
  EXPECT_EQ(text({"launch", "-n", "4"},
                 {"--dp-attention", "--pp", "2", "--expert-exchange", "gather", "--draft", "2"}),
            alone);
}

// The streams that DSpark reads must be of layers of the last pipeline stage.
TEST_F(LaunchTest, DSparkNeedsItsLayersInTheLastStage) {
  ThreadTeam team(2);
  const std::filesystem::path model = directory_.path() / "dspark";
  const Result<SliceSummary> written = WriteSlice(
      model,
      {.config =
           TinyConfig({.ratios = {0, 4, 128, 4}, .vocab_size = 512, .draft = &kDSparkDrafter})},
      team, {});
  ASSERT_TRUE(written) << written.error().message;
  const auto run = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"launch", "-n", "2",         "generate", "--model", model,
                                      "-n",     "4",  "--threads", "1",        "--seed",  "7"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("hello");
    return RunProgram(words);
  };
  const ProgramRun refused = run({"--pp", "2", "--draft", "2"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.error.find("drafts: expected layer 1 and those behind it, which the DSpark "
                               "drafter reads, in the last pipeline stage; found layers"),
            std::string::npos)
      << refused.error;
  const ProgramRun alone = RunProgram(
      {"generate", "--model", model, "-n", "4", "--threads", "1", "--seed", "7", "hello"});
  EXPECT_EQ(run({"--pp", "2", "--draft", "off"}).out, alone.out);
  EXPECT_EQ(run({"--tp", "2", "--draft", "2"}).out, alone.out);
}

TEST_F(LaunchTest, BlocksOnDiskAreFoundAgain) {
  std::string prompt;
  for (int i = 0; i < 60; ++i) {
    prompt += "Once upon a time ";
  }
  const auto run = [&](std::vector<std::string> words, const std::vector<std::string>& options) {
    words.insert(words.end(), {"generate", "--threads", "1", "--seed", "7", "-n", "20", "--json",
                               "--kv-disk", directory_.path() / "blocks"});
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(prompt);
    return ParseOutput(RunProgram(words));
  };
  for (const char* cut : {"--pp", "--tp"}) {
    const nlohmann::json first = run({"launch", "-n", "2"}, {cut, "2"});
    const nlohmann::json again = run({"launch", "-n", "2"}, {cut, "2"});
    EXPECT_EQ(first["text"], again["text"]);
    EXPECT_EQ(first["cached_tokens"], 0) << first;
    EXPECT_GE(again["cached_tokens"], 128) << again;
  }
}

TEST_F(LaunchTest, BenchMeasuresAllRanks) {
  const ProgramRun run = RunProgram({"launch", "-n", "2", "bench", "--threads", "1", "--pp", "2",
                                     "--rows", "tg4,pp8", "--reps", "1", "--bandwidth-mib", "16"});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_NE(run.out.find("2 ranks of 1 thread"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\ntg4 "), std::string::npos) << run.out;
  const ProgramRun data =
      RunProgram({"launch", "-n", "2", "bench", "--threads", "1", "--dp-attention", "--rows",
                  "tg4@200x3", "--reps", "1", "--bandwidth-mib", "16"});
  EXPECT_EQ(data.exit_code, 0) << data.error;
  EXPECT_NE(data.out.find("\ntg4"), std::string::npos) << data.out;
}

TEST_F(LaunchTest, ARankThatIsKilledEndsAll) {
  std::chrono::seconds took{};
  const ProgramRun run = RunAndSignal(SIGKILL, &took);
  ExpectRefusal(run, 1, "rank 1: was killed by signal 9 (Killed)");
  EXPECT_LE(took.count(), 10);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(LaunchTest, ARankThatIsStoppedEndsAll) {
  std::chrono::seconds took{};
  const ProgramRun run = RunAndSignal(SIGSTOP, &took);
  ExpectRefusal(run, 1, "rank 1: has said nothing for 5 s");
  EXPECT_LE(took.count(), 10);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(LaunchTest, ARankWithoutMemoryEndsAll) {
  for (const std::size_t rank : {0u, 1u}) {
    std::chrono::seconds took{};
    const ProgramRun run = RunOutOfMemory(rank, &took);
    ExpectRefusal(run, 1, fmt::format("rank {}: ", rank));
    EXPECT_TRUE(SaysNoMemory(run.error, rank)) << run.error;
    EXPECT_LE(took.count(), 10);
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  }
}

TEST_F(LaunchTest, WrongUseIsSaidOnce) {
  const auto refusal = [&](std::vector<std::string> words, int exit_code, std::string_view part) {
    ExpectRefusal(RunProgram(words), exit_code, part);
  };
  const std::string file = out();
  refusal({"launch", "-n", "2"}, 1, "expected a command");
  refusal({"launch", "-n", "2", "inspect"}, 1,
          "several ranks (batch, bench, chat, generate, logits, serve), found inspect");
  refusal({"launch", "-n", "2", "generate", "--context", "2", "Once upon a time"}, 1,
          "prompt: expected at most 2 tokens");
  refusal({"launch", "-n", "2", "generate", "--tp", "3", "x"}, 1, "--tp times --pp");
  refusal({"launch", "-n", "2", "logits", "--nonsense"}, 2, "--nonsense");
  refusal({"launch", "-n", "0", "logits", "--tokens", "1", "--out", file}, 2, "--ranks");
  refusal({"launch", "-n", "3", "logits", "--tokens", "1", "--out", file}, 1,
          "--tp: expected a number that divides 4 (query heads), found 3");
  refusal({"launch", "-n", "2", "logits", "--pp", "3", "--tokens", "1", "--out", file}, 1,
          "--tp times --pp: expected the number of ranks, 2");
  refusal({"logits", "--tp", "2", "--tokens", "1", "--out", file}, 1, "--tp times --pp");
  refusal({"launch", "-n", "2", "logits", "--dp-attention", "--tp", "2", "--tokens", "1", "--out",
           file},
          1, "--dp-attention: expected --tp 1");
  refusal({"launch", "-n", "2", "logits", "--dp-attention", "--ep", "1", "--tokens", "1", "--out",
           file},
          1, "found --tp 1 --ep 1");
  refusal({"launch", "-n", "3", "logits", "--dp-attention", "--tokens", "1", "--out", file}, 1,
          "--dp-attention: expected a number that divides 8 (routed experts), found 3");
  refusal({"launch", "-n", "2", "logits", "--ep", "4", "--tokens", "1", "--out", file}, 1,
          "--ep: expected 1 or 2 (the ranks of a stage), found 4");
  refusal({"launch", "-n", "2", "logits", "--ep", "1", "--expert-exchange", "fused", "--tokens",
           "1", "--out", file},
          1, "--expert-exchange fused: needs the routed experts on several ranks");
  refusal({"logits", "--decode-context-parallel", "--tokens", "1", "--out", file}, 1, "--tp of 2");
  refusal({"logits", "--expert-exchange", "fused", "--tokens", "1", "--out", file}, 1, "use --ep");
  refusal({"logits", "--expert-exchange", "both", "--tokens", "1", "--out", file}, 2, "both");
  refusal({"launch", "-n", "2", "logits", "--tokens", "9999", "--out", file}, 1, "9999");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

}  // namespace
}  // namespace fathom::testing
