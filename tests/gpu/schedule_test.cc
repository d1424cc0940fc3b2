// The engine on an emulated GPU gives each request the answer that the CPU would give it alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
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

// A GPU, and what it has time for.
struct SchedulesCase {
  TestGpu gpu;
  CheckpointCase checkpoint;
  ScheduleSizes sizes;
  std::string name;
  bool (*happens)(const ScheduleCounts& counts) = nullptr;  // what the usual seed is there for
};

// Prompts of one to three blocks: the emulator computes some ten tokens a second, so that twenty
// schedules (FATHOM_SCHEDULES=1,20) take minutes. The seeds are those that need the fewest tokens
// for what they are there for.
SchedulesCase Emulated(int wave_size, const ScheduleSizes& sizes, const std::string& name,
                       bool (*happens)(const ScheduleCounts& counts)) {
  return {EmulatedGpu({.wave_size = wave_size, .runs_when_awaited = true}), kFlashMini, sizes, name,
          happens};
}
ScheduleSizes Sizes(std::int64_t max_prompt, std::int64_t max_answer, std::uint64_t seed) {
  return {
      .max_prompt = max_prompt, .max_answer = max_answer, .max_requests = 4, .first_seed = seed};
}

// Blocks of DSpark, whose tokens the device chooses.
SchedulesCase EmulatedDSpark(std::uint64_t seed) {
  return {EmulatedGpu({.wave_size = 32, .runs_when_awaited = true}),
          kDSparkMini,
          {.max_prompt = 150, .max_answer = 16, .max_requests = 4, .first_seed = seed},
          "",
          [](const ScheduleCounts& counts) { return counts.metrics.accepted[0] > 0; }};
}

class GpuSchedules : public ::testing::TestWithParam<SchedulesCase> {};

TEST_P(GpuSchedules, GiveEachRequestItsAnswer) {
  const auto& [gpu, checkpoint, sizes, name, happens] = GetParam();
  if (const std::string reason = WhySkipped(gpu); !reason.empty()) GTEST_SKIP() << reason;
  const auto directory = checkpoint.Directory();
  if (!directory) GTEST_SKIP() << kNoSharedData;
  const TestBackend& backend = gpu.backend;
  const ScheduleCounts counts = ExpectOneAnswerEach(
      *directory,
      [&backend](const std::filesystem::path& model, const ScheduleSetup& setup) {
        return LoadOn(backend, model, setup);
      },
      1, /*with_disk=*/true, /*n_data=*/1, sizes);
  if (happens != nullptr && std::getenv("FATHOM_SCHEDULES") == nullptr) {
    EXPECT_TRUE(happens(counts)) << "take another seed, in which it happens";
  }
}

std::vector<SchedulesCase> SchedulesOnDevice() {
  std::vector<SchedulesCase> cases;
  for (const TestGpu& gpu : ChosenGpus()) {
    for (const CheckpointCase& checkpoint : {kFairy, kDSparkMini}) {
      cases.push_back({gpu, checkpoint, {}, "", nullptr});
    }
  }
  return cases;
}
std::string NameOfSchedules(const ::testing::TestParamInfo<SchedulesCase>& test) {
  return test.param.checkpoint.name + test.param.gpu.name + test.param.name;
}
// A prefix is found, a request is cancelled; a sequence gives its memory up, a prompt has several
// answers; a prefix is found, a draft is right.
INSTANTIATE_TEST_SUITE_P(Emulator, GpuSchedules,
                         ::testing::Values(Emulated(32, Sizes(300, 16, 38), "Prefixes",
                                                    [](const ScheduleCounts& counts) {
                                                      return counts.metrics.cached_tokens > 0 &&
                                                             counts.cancelled > 0;
                                                    }),
                                           Emulated(32, Sizes(160, 12, 4), "Preemption",
                                                    [](const ScheduleCounts& counts) {
                                                      return counts.metrics.preemptions > 0 &&
                                                             counts.answers > 4;
                                                    }),
                                           EmulatedDSpark(6),
                                           Emulated(64, Sizes(300, 16, 53), "Drafts",
                                                    [](const ScheduleCounts& counts) {
                                                      return counts.metrics.cached_tokens > 0 &&
                                                             counts.metrics.accepted[0] > 0;
                                                    })),
                         NameOfSchedules);
INSTANTIATE_TEST_SUITE_P(OnDevice, GpuSchedules, ::testing::ValuesIn(SchedulesOnDevice()),
                         NameOfSchedules);

}  // namespace
}  // namespace fathom::testing
