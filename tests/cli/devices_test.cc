// fathom devices, --backend and --device, with drivers that are a library of the tests.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Returns the line of `fathom inspect` about a GPU with so much memory.
std::string LineOfPlan(const std::string& experts, std::int64_t free) {
  const ProgramRun run =
      RunProgram({"inspect", "--experts", experts, "--device-memory", std::to_string(free)});
  EXPECT_EQ(run.exit_code, 0) << run.error;
  const std::size_t end = run.out.find('\n', run.out.find(" free on the device"));
  const std::size_t begin = run.out.rfind("  ", end) + 2;
  return run.out.substr(begin, end - begin);
}

// Memory that holds the embedded model with half of its experts.
std::int64_t FreeForHalfOfTheExperts() {
  const auto plan =
      ParseOutput(RunProgram({"inspect", "--json", "--device-memory", "1G"}))["memory"]["device"];
  EXPECT_EQ(plan["experts_on_device"], plan["experts"]);
  std::int64_t bytes =
      plan["experts"].get<std::int64_t>() / 2 * plan["expert_bytes"].get<std::int64_t>();
  for (const char* part : {"dense", "draft_head", "activation", "cache", "staging"}) {
    bytes += plan[fmt::format("{}_bytes", part)].get<std::int64_t>();
  }
  return bytes * 64 / 63 + 64;
}

TEST(Devices, TheProcessorIsFirst) {
  const ProgramRun run = RunProgram({"devices"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.error, "");
  EXPECT_THAT(
      run.out.substr(0, run.out.find('\n')),
      MatchesRegex("cpu       (scalar|avx2|avx512|avx512_bf16|amx), [0-9]+ cores?, [0-9.]+ GiB "
                   "available; used by default"));
  EXPECT_THAT(run.out, AllOf(HasSubstr("\ncuda "), HasSubstr("\nhip ")));
}

TEST(Devices, ABuildWithoutModules) {
  const TemporaryDirectory directory;
  const std::filesystem::path program = directory.path() / "fathom";
  std::filesystem::copy_file(ProgramPath(), program);
  const ProgramRun run = RunProgram({"devices"}, {.program = program});
  EXPECT_EQ(run.exit_code, 0);
  const std::string cuda =
      fmt::format("this build has no CUDA: there is no {} (build with nvcc 13 or later installed)",
                  (directory.path() / "fathom_cuda.so").string());
  const std::string hip = fmt::format(
      "this build has no HIP: there is no {} (build with clang-19 and lld-19 installed)",
      (directory.path() / "fathom_hip.so").string());
  EXPECT_THAT(run.out, AllOf(HasSubstr("cuda      not used: " + cuda + "\n"),
                             HasSubstr("hip       not used: " + hip + "\n")));
  for (const auto& [backend, reason] : {std::pair("cuda", cuda), std::pair("hip", hip)}) {
    ExpectRefusal(RunProgram({"generate", "x", "--backend", backend, "--model",
                              ProjectPath("models/fairy").string()},
                             {.program = program}),
                  1, reason);
  }
}

// A module of this build, with the driver of the tests.
class GpuProgramTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string module = fmt::format("fathom_{}.so", GetParam());
    if (!std::filesystem::exists(ProgramPath().parent_path() / module)) {
      GTEST_SKIP() << "this build has no " << module;
    }
    UseDriver(FATHOM_FAKE_GPU_DRIVER);
  }

  void UseDriver(const std::filesystem::path& library) const {
    for (const char* name : {"libcuda.so.1", "libamdhip64.so.7"}) {
      const std::filesystem::path link = directory_.path() / name;
      std::filesystem::remove(link);
      std::filesystem::create_symlink(library, link);
    }
  }
  bool is_cuda() const { return std::string(GetParam()) == "cuda"; }
  std::string title() const { return is_cuda() ? "CUDA" : "HIP"; }
  // `state`: of the driver (tests/testing/fake_gpu_driver.h); `settings`: more of the environment.
  ProgramRun Run(const std::vector<std::string>& arguments, const std::string& state,
                 std::vector<std::string> settings = {}) const {
    settings.push_back("LD_LIBRARY_PATH=" + directory_.path().string());
    settings.push_back("FAKE_GPU_DRIVER=" + state);
    return RunProgram(arguments, {.environment = std::move(settings)});
  }
  // The lines of fathom devices about this vendor, and the error of --backend.
  std::string Lines(const std::string& state) const {
    const ProgramRun run = Run({"devices"}, state);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    std::string lines;
    for (std::size_t at = 0; at < run.out.size();) {
      const std::size_t end = run.out.find('\n', at) + 1;
      const std::string line = run.out.substr(at, end - at);
      if (line.starts_with(GetParam())) lines += line;
      at = end;
    }
    return lines;
  }
  void ExpectRefused(const std::vector<std::string>& options, const std::string& state,
                     const std::string& message) const {
    std::vector<std::string> arguments = {"generate", "x", "--backend", GetParam()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    ExpectRefusal(Run(arguments, state), 1, "fathom: error: " + message + "\n");
  }

 private:
  TemporaryDirectory directory_;
};

TEST_P(GpuProgramTest, DevicesAreNumberedAndExplained) {
  const std::string obstacle =
      is_cuda() ? "expected an architecture of sm_80, sm_90a, sm_100a, sm_120a, compute_80, found "
                  "compute capability 7.5"
                : "expected an architecture of gfx90a, gfx942, gfx1030, gfx1100, gfx1101, gfx1150, "
                  "gfx1151, gfx1200, gfx1201, found gfx906";
  EXPECT_EQ(
      Lines("two"),
      fmt::format("{:<9} Fake GPU, {}, 80.0 GiB; used with --backend {} --device 0\n"
                  "{:<9} Old GPU, {} multiprocessors, 80.0 GiB; not used: {}\n",
                  std::string(GetParam()) + " 0",
                  is_cuda() ? "sm_90a, 132 multiprocessors" : "gfx942, 304 multiprocessors",
                  GetParam(), std::string(GetParam()) + " 1", is_cuda() ? 132 : 304, obstacle));
  ExpectRefused({"--device", "1"}, "two", title() + " device 1 (Old GPU): " + obstacle);
  ExpectRefused({"--device", "2"}, "two", title() + ": expected a device from 0 to 1, found 2");
}

TEST_P(GpuProgramTest, DriversThatCannotBeUsedAreExplained) {
  const std::string old =
      is_cuda() ? "CUDA: expected a driver of CUDA 13.0 (driver 580) or later, found one of 12.4"
                : "HIP: expected a driver of ROCm 6.0 or later, found one of 5.7";
  const std::string none = title() + ": expected a device, found none";
  const std::string lines = fmt::format("{:<9} not used: ", GetParam());
  EXPECT_EQ(Lines("old"), lines + old + "\n");
  EXPECT_EQ(Lines("no device"), lines + none + "\n");
  ExpectRefused({}, "old", old);
  ExpectRefused({}, "no device", none);
}

TEST_P(GpuProgramTest, AutoTakesTheProcessor) {
  const std::vector<std::string> generate = {"generate", "Once upon a time", "-n",
                                             "4",        "--seed",           "1"};
  const std::string text = RunProgram(generate).out;
  std::vector<std::string> with_backend = generate;
  with_backend.insert(with_backend.end(), {"--backend", "auto"});
  EXPECT_EQ(Run(with_backend, "two").out, text);
  with_backend.back() = "cpu";
  EXPECT_EQ(Run(with_backend, "two").out, text);
}

// The whole program, from its options to the functions of the driver.
TEST_P(GpuProgramTest, AnswersAreThoseOfTheProcessor) {
  UseDriver(FATHOM_EMULATED_GPU_DRIVER);
  std::vector<std::string> generate = {"generate", "Once upon a time", "-n", "8", "--seed", "1"};
  const ProgramRun expected = RunProgram(generate);
  ASSERT_EQ(expected.exit_code, 0) << expected.error;
  generate.insert(generate.end(), {"--backend", GetParam()});
  const ProgramRun found = Run(generate, "");
  EXPECT_EQ(found.exit_code, 0) << found.error;
  EXPECT_EQ(found.out, expected.out);
  std::vector<std::string> launch = {"launch", "--ranks", "2", "--"};
  launch.insert(launch.end(), generate.begin(), generate.end());
  launch.insert(launch.end(), {"--tp", "2", "--ep", "2"});
  const ProgramRun on_ranks = Run(launch, "");
  EXPECT_EQ(on_ranks.exit_code, 0) << on_ranks.error;
  EXPECT_EQ(on_ranks.out, expected.out);
  generate.insert(generate.end(), {"--products", "fast"});
  ExpectRefusal(
      Run(generate, ""), 1,
      fmt::format("--products: expected exact or auto, which Fake GPU, {} has, found fast",
                  is_cuda() ? "sm_90a" : "gfx942"));
}

// Experts for which the GPU has no memory, as `fathom inspect` and loading plan them.
TEST_P(GpuProgramTest, AnswersDoNotDependOnWhereExpertsAre) {
  UseDriver(FATHOM_EMULATED_GPU_DRIVER);
  std::vector<std::string> generate = {"generate", "Once", "-n", "2", "--seed", "1"};
  const std::string text = RunProgram(generate).out;
  const std::string choice = is_cuda() ? "cpu" : "gpu";
  const std::int64_t free = FreeForHalfOfTheExperts();
  const std::string line = LineOfPlan(choice, free);
  EXPECT_THAT(line, HasSubstr(is_cuda() ? "the CPU computes the other" : "over the bus"));
  generate.insert(generate.end(), {"--backend", GetParam(), "--experts", choice, "--context",
                                   "8192", "--log-level", "info"});
  const ProgramRun run = Run(generate, fmt::format("free {}", free));
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.out, text);
  EXPECT_THAT(run.error, HasSubstr(line));
}

TEST_P(GpuProgramTest, IntegratedDevicesUseWeightsInPlace) {
  UseDriver(FATHOM_EMULATED_GPU_DRIVER);
  std::vector<std::string> generate = {"generate", "Once", "-n", "2", "--seed", "1"};
  const std::string text = RunProgram(generate).out;
  generate.insert(generate.end(), {"--backend", GetParam(), "--log-level", "info"});
  const ProgramRun run = Run(generate, "integrated");
  EXPECT_EQ(run.exit_code, 0) << run.error;
  EXPECT_EQ(run.out, text);
  EXPECT_THAT(run.error, HasSubstr("; the GPU reads all weights in memory of the host\n"));
}

TEST_P(GpuProgramTest, AKernelThatFailsIsNamed) {
  UseDriver(FATHOM_EMULATED_GPU_DRIVER);
  const std::vector<std::string> generate = {"generate", "Once",      "-n",
                                             "2",        "--backend", GetParam()};
  const std::string device = title() + " device 0 (Fake GPU)";
  ExpectRefusal(Run(generate, "fails HcPre"), 1,
                device +
                    ": unspecified launch failure (error 719); with FATHOM_GPU_SYNC=1 in the "
                    "environment the error names the kernel");
  ExpectRefusal(Run(generate, "fails HcPre", {"FATHOM_GPU_SYNC=1"}), 1,
                device + ", kernel HcPre, grid ");
  ExpectRefusal(Run(generate, "fails HcPre", {"FATHOM_GPU_SYNC=1"}), 1,
                " of 256 threads: unspecified launch failure (error 719)");
}

TEST_P(GpuProgramTest, MemoryOfTheHostIsForTheProcessor) {
  UseDriver(FATHOM_EMULATED_GPU_DRIVER);
  ExpectRefusal(Run({"generate", "x", "--backend", GetParam(), "--memory", "1G"}, ""), 1,
                fmt::format("--memory: expected processes that compute on the CPU, found "
                            "--backend {}",
                            GetParam()));
}

TEST_P(GpuProgramTest, TooLittleMemoryForTheModel) {
  const ProgramRun run = Run({"generate", "x", "--backend", GetParam()}, "free 16000000");
  ExpectRefusal(run, 1, "fathom: error: memory of the device: expected at least ");
  EXPECT_THAT(run.error, AllOf(HasSubstr(" GB dense weights, "), HasSubstr("found 0.016 GB free"),
                               HasSubstr("--kv-memory")));
}

INSTANTIATE_TEST_SUITE_P(Vendors, GpuProgramTest, ::testing::Values("cuda", "hip"),
                         [](const auto& vendor) { return std::string(vendor.param); });

TEST(Devices, ANumberNeedsABackendWithDevices) {
  ExpectRefusal(RunProgram({"generate", "x", "--device", "0"}), 2, "--backend");
  for (const std::string backend : {"cpu", "auto"}) {
    ExpectRefusal(RunProgram({"generate", "x", "--backend", backend, "--device", "0"}), 1,
                  "--device: expected --backend cuda or hip, found --backend " + backend);
  }
  ExpectRefusal(RunProgram({"generate", "x", "--backend", "gpu"}), 2, "auto cpu cuda hip");
}

TEST(Devices, WaysThatABackendLacksAreRefused) {
  const std::vector<std::pair<std::string, std::string>> lacking = {
      {"--products", "fast"}, {"--products", "fp8"}, {"--attention", "flash"}, {"--moe", "fused"}};
  for (const auto& [option, way] : lacking) {
    const ProgramRun run = RunProgram({"generate", "x", option, way, "--cpu-isa", "scalar"});
    const std::string only = option == "--products"    ? "exact"
                             : option == "--attention" ? "portable"
                                                       : "grouped";
    ExpectRefusal(
        run, 1,
        fmt::format("{}: expected {} or auto, which reference has, found {}", option, only, way));
    const std::vector<std::string> generate = {"generate", "Once", "-n", "2", "--seed", "1"};
    std::vector<std::string> with_way = generate;
    with_way.insert(with_way.end(), {option, only});
    EXPECT_EQ(RunProgram(with_way).out, RunProgram(generate).out);
  }
  ExpectRefusal(RunProgram({"generate", "x", "--products", "slow"}), 2, "auto exact fast fp8");
}

TEST(Devices, OnlyGpusLackMemoryForExperts) {
  ExpectRefusal(RunProgram({"generate", "x", "--experts", "cpu"}), 1,
                "--experts: expected --backend cuda or hip, or --experts auto, found --backend");
  ExpectRefusal(RunProgram({"generate", "x", "--experts", "disk"}), 2, "auto gpu cpu");
}

TEST(Devices, CommandsThatLoadAModelHaveBoth) {
  for (const char* command : {"generate", "chat", "serve", "batch", "logits", "bench"}) {
    EXPECT_THAT(
        RunProgram({command, "--help"}).out,
        AllOf(HasSubstr("--backend NAME"), HasSubstr("--device N"), HasSubstr("--experts WHERE")));
  }
}

}  // namespace
}  // namespace fathom::testing
