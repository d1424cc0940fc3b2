// Ranks as processes: the same bytes as from one, and one message when something goes wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "measure/slice/write_slice.h"
#include "model/draft/dspark.h"
#include "tests/cli/launch_fixture.h"
#include "tests/cli/processes.h"
#include "tests/cli/program.h"
#include "tests/measure/slice/tiny.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/locks.h"

namespace fathom::testing {
namespace {

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

TEST_F(LaunchTest, VariablesOfOneProcessAreNoLaunch) {
  const std::vector<std::string> environments[] = {
      {"PMI_SIZE=1", "PMI_RANK=0"}, {"OMPI_COMM_WORLD_SIZE=1"}, {"PMIX_RANK=0", "SLURM_NTASKS=1"}};
  for (const std::vector<std::string>& environment : environments) {
    const ProgramRun run =
        RunProgram({"generate", "Once", "-n", "1"}, {.environment = environment});
    EXPECT_EQ(run.exit_code, 0) << run.error;
  }
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
