// Help, version, wrong usage: what is said before anything runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCommands[] = {"generate", "serve",  "chat",  "batch",   "inspect",
                                     "tokenize", "encode", "parse", "logits",  "make-slice",
                                     "bench",    "launch", "plan",  "devices", "constrain"};

TEST(UsageTest, HelpListsAllCommands) {
  const ProgramRun run = RunProgram({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.error, "");
  for (const char* command : kCommands) {
    EXPECT_THAT(run.out, HasSubstr(command));
  }
}

TEST(UsageTest, EveryCommandHasHelpWithExamples) {
  for (const char* command : kCommands) {
    const ProgramRun run = RunProgram({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_THAT(run.out,
                AllOf(HasSubstr("Examples:\n"), HasSubstr(std::string("fathom ") + command)));
    EXPECT_EQ(run.out.back(), '\n');
  }
}

TEST(UsageTest, HelpAndVersionAreWords) {
  EXPECT_EQ(RunProgram({"help"}).out, RunProgram({"--help"}).out);
  EXPECT_EQ(RunProgram({"help", "serve"}).out, RunProgram({"serve", "--help"}).out);
  EXPECT_EQ(RunProgram({"help", "bench", "serve"}).out,
            RunProgram({"bench", "serve", "--help"}).out);
  EXPECT_EQ(RunProgram({"version"}).out, RunProgram({"--version"}).out);
  EXPECT_EQ(RunProgram({"version"}).exit_code, 0);
  const ProgramRun unknown = RunProgram({"help", "servee"});
  ExpectRefusal(unknown, 2, "unknown command \"servee\", did you mean serve?");
}

TEST(UsageTest, VersionNamesCommitCompilerAndInstructionSets) {
  const ProgramRun run = RunProgram({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("fathom 0."), HasSubstr("commit "), HasSubstr("compiler: "),
                    HasSubstr("compiled scalar avx2 avx512 avx512_bf16 amx; present scalar"),
                    HasSubstr("backends: ")));
}

TEST(UsageTest, NoCommandListsThem) {
  ExpectRefusal(RunProgram({}), 2,
                "generate chat serve batch devices inspect tokenize encode constrain parse logits "
                "launch plan "
                "make-slice bench");
}

TEST(UsageTest, UnknownCommandIsExplained) {
  ExpectRefusal(RunProgram({"generat", "x"}), 2,
                "unknown command \"generat\", did you mean generate?");
}

TEST(UsageTest, UnknownOptionsGetAHintAlone) {
  for (const char* command : kCommands) {
    const ProgramRun run = RunProgram({command, "--bogus"});
    ExpectRefusal(run, 2, "unknown option --bogus");
    EXPECT_THAT(run.error, AllOf(HasSubstr(std::string("Try: fathom ") + command + " --help"),
                                 Not(HasSubstr("allowed"))));
    EXPECT_LT(run.error.size(), 130u) << run.error;
  }
  ExpectRefusal(RunProgram({"generate", "x", "--temprature=1"}), 2, "did you mean --temperature?");
  ExpectRefusal(RunProgram({"tokenize", "x", "--decod", "1"}), 2, "did you mean --decode?");
}

TEST(UsageTest, OptionsOfOtherServersAreNamedAsOurs) {
  const std::vector<std::vector<std::string>> calls = {
      {"serve", "-m", "--model"},
      {"serve", "--model-path", "--model"},
      {"serve", "-c", "--context"},
      {"serve", "--ctx-size=4096", "--context"},
      {"serve", "-t", "--threads"},
      {"serve", "--gpu-memory-utilization", "--kv-memory"},
      {"serve", "--mem-fraction-static", "--kv-memory"},
      {"serve", "-np", "--max-sequences"},
      {"serve", "-tp", "--tp"},
      {"generate", "--max-model-len", "--context"},
      {"generate", "--tensor-parallel-size", "--tp"},
      {"chat", "--temp", "--temperature"},
  };
  for (const std::vector<std::string>& call : calls) {
    const ProgramRun run = RunProgram({call[0], call[1], "8"});
    ExpectRefusal(run, 2,
                  "unknown option " + call[1].substr(0, call[1].find('=')) + ", which is " +
                      call[2] + " here\n");
  }
  for (const char* name : {"-ngl", "--n-gpu-layers", "--gpu-layers", "--dtype"}) {
    ExpectRefusal(RunProgram({"serve", name, "99"}), 2,
                  std::string("unknown option ") + name + ", which has no counterpart here");
  }
  // A command that has nothing of the kind.
  const ProgramRun run = RunProgram({"tokenize", "x", "--ctx-size", "8"});
  ExpectRefusal(run, 2, "unknown option --ctx-size\n");
}

TEST(UsageTest, UnquotedTextIsExplained) {
  ExpectRefusal(RunProgram({"generate", "Once", "upon"}), 2, "unexpected argument \"upon\"");
}

TEST(UsageTest, MissingArgumentsAreNamed) {
  ExpectRefusal(RunProgram({"generate"}), 2, "prompt");
  ExpectRefusal(RunProgram({"encode"}), 2, "messages");
  ExpectRefusal(RunProgram({"parse"}), 2, "answer");
  ExpectRefusal(RunProgram({"tokenize"}), 2, "--decode");
  ExpectRefusal(RunProgram({"logits", "--tokens", "1"}), 2, "--out");
  ExpectRefusal(RunProgram({"logits", "--out", "x"}), 2, "--tokens");
}

struct BadValue {
  const char* option;
  const char* value;
  const char* message;
  friend void PrintTo(const BadValue& bad, std::ostream* out) {
    *out << bad.option << " " << bad.value;
  }
};

class BadValueTest : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadValueTest, IsRefusedWithWhatIsAllowed) {
  const BadValue& bad = GetParam();
  const ProgramRun run = RunProgram({"generate", "x", bad.option, bad.value});
  ExpectRefusal(run, 2, bad.option);
  EXPECT_THAT(run.error,
              AllOf(HasSubstr(bad.message), HasSubstr(std::string("\"") + bad.value + "\"")));
}

INSTANTIATE_TEST_SUITE_P(
    Generate, BadValueTest,
    ::testing::Values(BadValue{"--temperature", "-0.1", "a number from 0 to 2"},
                      BadValue{"--temperature", "nan", "a number from 0 to 2"},
                      BadValue{"--temperature", "2.1", "a number from 0 to 2"},
                      BadValue{"--temperature", "warm", "a number from 0 to 2"},
                      BadValue{"--top-p", "-0.1", "a number from 0 to 1"},
                      BadValue{"--top-p", "1.01", "a number from 0 to 1"},
                      BadValue{"--top-k", "-1", "a whole number of at least 0"},
                      BadValue{"--top-k", "1.5", "a whole number of at least 0"},
                      BadValue{"--min-p", "inf", "a number from 0 to 1"},
                      BadValue{"--repetition-penalty", "0", "a number from 0.01 to 100"},
                      BadValue{"--presence-penalty", "-3", "a number from -2 to 2"},
                      BadValue{"--frequency-penalty", "3", "a number from -2 to 2"},
                      BadValue{"--logit-bias", "5", "ID=VALUE"},
                      BadValue{"--logit-bias", "5=101", "from -100 to 100"},
                      BadValue{"--logit-bias", "-5=1", "ID=VALUE"},
                      BadValue{"--stop-token", "4294967296", "a whole number from 0"},
                      BadValue{"--max-tokens", "99999999999999999999", "a whole number"},
                      BadValue{"--min-tokens", "-1", "a whole number"},
                      BadValue{"--logprobs", "21", "from 0 to 20"},
                      BadValue{"--seed", "-1", "from 0 to 2^64 - 1"},
                      BadValue{"--seed", "18446744073709551616", "from 0 to 2^64 - 1"},
                      BadValue{"--threads", "0", "a whole number from 1"},
                      BadValue{"--pin", "yes", "one of on off"},
                      BadValue{"--cpus", "", "numbers of processors and ranges of them"},
                      BadValue{"--cpus", "1-", "numbers of processors and ranges of them"},
                      BadValue{"--cpus", "3-1", "numbers of processors and ranges of them"},
                      BadValue{"--cpus", "0,0-1", "each once"},
                      BadValue{"--cpus", "0,-1", "numbers of processors and ranges of them"},
                      BadValue{"--cpus", "70000", "numbers of processors and ranges of them"},
                      BadValue{"--context", "0", "a whole number of at least 1"},
                      BadValue{"--cpu-isa", "sse9", "scalar avx2 avx512 avx512_bf16 amx"},
                      BadValue{"--log-level", "loud", "trace debug info warn error off"}));

TEST(UsageTest, OtherBadValuesSayWhatIsAllowed) {
  ExpectRefusal(RunProgram({"chat", "--think", "hard"}), 2, "off high max");
  ExpectRefusal(RunProgram({"chat", "--profile", "v5"}), 2, "v4-preview v4-0731");
  ExpectRefusal(RunProgram({"encode", "x", "--thinking", "yes"}), 2, "on off");
  ExpectRefusal(RunProgram({"logits", "--tokens", "1", "--out", "x", "--chunk", "0"}), 2,
                "--chunk");
  ExpectRefusal(RunProgram({"logits", "--tokens", "1", "--out", "x", "--prefill", "-1"}), 2,
                "--prefill");
}

TEST(UsageTest, ModelsThatAreNotThereAreNamed) {
  const TemporaryDirectory directory;
  const std::string missing = directory.path() / "nowhere";
  const std::string empty = directory.path();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", "x"},
        {"tokenize", "x"},
        {"chat"},
        {"bench"},
        {"logits", "--tokens", "1", "--out", empty + "/out"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--model", missing});
    ExpectRefusal(RunProgram(arguments), 1, missing + ": no such model directory");
    arguments.back() = empty;
    ExpectRefusal(RunProgram(arguments), 1, empty);
    EXPECT_TRUE(std::filesystem::is_empty(empty)) << command.front();
  }
  ExpectRefusal(RunProgram({"generate", "x", "--model", ProgramPath()}), 1, "found a file");
}

TEST(UsageTest, EnvironmentNamesTheModel) {
  ExpectRefusal(RunProgram({"generate", "x"}, {.environment = {"FATHOM_MODEL=/no/such/model"}}), 1,
                "/no/such/model");
}

TEST(UsageTest, FullOutputIsAnError) {
  const ProgramRun run = RunProgram({"--help"}, {.output = "/dev/full"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.error, HasSubstr("standard output: cannot write"));
}

TEST(UsageTest, LogLevelDecidesWhatIsTold) {
  const std::vector<std::string> base = {"generate", "x", "-n", "1", "--log-level"};
  std::vector<std::string> info = base;
  info.emplace_back("info");
  EXPECT_THAT(RunProgram(info).error, HasSubstr("backend "));
  std::vector<std::string> off = base;
  off.emplace_back("off");
  EXPECT_THAT(RunProgram(off).error, Not(HasSubstr("backend ")));
}

}  // namespace
}  // namespace fathom::testing
