// Where threads run and where the weights lie: --threads, --pin, --cpus, --preload, --lock,
// --huge-pages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/processors.h"
#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgramRun GenerateOn(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"generate", "Once upon a time", "-n",  "20", "--seed",
                                        "1",        "--log-level",      "info"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return RunProgram(arguments);
}

TEST(MachineOptions, NoneOfThemChangesTheText) {
  const ProgramRun plain = GenerateOn({});
  ASSERT_EQ(plain.exit_code, 0) << plain.error;
  EXPECT_THAT(plain.error, Not(HasSubstr("on processors")));
  const std::string first = std::to_string(AllowedProcessors().front());
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--pin", "on"},
        {"--pin", "off"},
        {"--cpus", first},
        {"--preload"},
        {"--huge-pages"},
        {"--preload", "--huge-pages", "--threads", "1"}}) {
    const ProgramRun run = GenerateOn(options);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    EXPECT_EQ(run.out, plain.out) << options.front();
  }
}

TEST(MachineOptions, BoundThreadsAreNamed) {
  const std::vector<int> allowed = AllowedProcessors();
  std::string all;
  for (const int processor : allowed) {
    all += (all.empty() ? "" : ",") + std::to_string(processor);
  }
  EXPECT_THAT(GenerateOn({"--cpus", all}).error,
              HasSubstr(fmt::format("{} thread{} on processors {}\n", allowed.size(),
                                    allowed.size() == 1 ? "" : "s", all)));
  EXPECT_THAT(GenerateOn({"--pin", "on", "--threads", "1"}).error,
              HasSubstr(fmt::format("1 thread on processors {}\n", allowed.front())));
}

TEST(MachineOptions, ProcessorsMustBeThere) {
  ExpectRefusal(RunProgram({"generate", "x", "--cpus", "60000"}), 1, "found 60000");
  const std::size_t n_cores = OnePerCore(AllowedProcessors()).size();
  ExpectRefusal(
      RunProgram({"generate", "x", "--pin", "on", "--threads", std::to_string(n_cores + 1)}), 1,
      fmt::format("--pin: expected at most {} threads", n_cores));
  ExpectRefusal(RunProgram({"generate", "x", "--cpus", "0", "--threads", "1"}), 2, "excludes");
  ExpectRefusal(RunProgram({"generate", "x", "--cpus", "0", "--pin", "on"}), 2, "excludes");
}

TEST(MachineOptions, WeightsMustFitIntoMemory) {
  const auto config = SharedData("data/tokenizer/config.DeepSeek-V4-Pro.json");
  if (!config) GTEST_SKIP() << kNoSharedData;
  const TemporaryDirectory directory;
  WriteSparseCheckpoint(directory.path(), ReadFile(*config), {.head = NativeHead::kMtp});
  for (const char* option : {"--huge-pages", "--preload", "--lock"}) {
    ExpectRefusal(RunProgram({"logits", "--model", directory.path(), "--tokens", "1", "--out",
                              directory.path() / "out", option}),
                  1, "expected at least 850.7 GB of available memory for the weights, found ");
  }
}

TEST(MachineOptions, HelpNamesThem) {
  for (const char* command : {"generate", "chat", "logits", "bench"}) {
    const ProgramRun run = RunProgram({command, "--help"});
    for (const char* option :
         {"--threads", "--pin", "--cpus", "--preload", "--lock", "--huge-pages"}) {
      EXPECT_THAT(run.out, HasSubstr(option)) << command;
    }
  }
}

}  // namespace
}  // namespace fathom::testing
