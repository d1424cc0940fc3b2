// The engine on an emulated GPU gives each request the answer that the CPU would give it alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/model_on_backend.h"
#include "tests/gpu/emulated_gpu.h"
#include "tests/model/checkpoint_case.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

// Requests of three blocks at most: the emulator computes some ten tokens a second.
constexpr ScheduleSizes kSmall = {.max_prompt = 300, .max_answer = 16, .max_requests = 5};

// A GPU, and what it has time for.
struct SchedulesCase {
  TestGpu gpu;
  CheckpointCase checkpoint;
  ScheduleSizes sizes;
};

class GpuSchedules : public ::testing::TestWithParam<SchedulesCase> {};

TEST_P(GpuSchedules, GiveEachRequestItsAnswer) {
  const auto& [gpu, checkpoint, sizes] = GetParam();
  if (const std::string reason = WhySkipped(gpu); !reason.empty()) GTEST_SKIP() << reason;
  const auto directory = checkpoint.Directory();
  if (!directory) GTEST_SKIP() << kNoSharedData;
  const TestBackend& backend = gpu.backend;
  ExpectOneAnswerEachOf(
      *directory,
      [&backend](const std::filesystem::path& model, const ScheduleSetup& setup) {
        std::unique_ptr<LanguageModel> loaded = LoadOn(backend, model, setup);
        EXPECT_TRUE(loaded->ChoosesTokens());
        return loaded;
      },
      1, /*with_disk=*/true, /*n_data=*/1, sizes);
}

std::vector<SchedulesCase> SchedulesOnDevice() {
  std::vector<SchedulesCase> cases;
  for (const TestGpu& gpu : ChosenGpus()) cases.push_back({gpu, kFairy, {}});
  return cases;
}
std::string NameOfSchedules(const ::testing::TestParamInfo<SchedulesCase>& test) {
  return test.param.checkpoint.name + test.param.gpu.name;
}
INSTANTIATE_TEST_SUITE_P(Emulator, GpuSchedules,
                         ::testing::Values(SchedulesCase{EmulatedGpu({.runs_when_awaited = true}),
                                                         kFlashMini, kSmall}),
                         NameOfSchedules);
INSTANTIATE_TEST_SUITE_P(OnDevice, GpuSchedules, ::testing::ValuesIn(SchedulesOnDevice()),
                         NameOfSchedules);

}  // namespace
}  // namespace fathom::testing
