// Random schedules on models whose experts are streamed from disk: each answer is that of the model
// in memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <thread>

#include "experts/expert_parts.h"
#include "tests/engine/model_on_backend.h"
#include "tests/engine/schedule_checks.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/model/checkpoint_case.h"

namespace fathom::testing {
namespace {

// Reads end in any order.
std::int64_t ReadLate(const ReadCall& call, std::span<std::byte>& /*to*/) {
  std::this_thread::sleep_for(std::chrono::microseconds((call.number * 7919) % 60));
  return kReadFile;
}

class StreamedSchedules : public ::testing::TestWithParam<CheckpointCase> {};

TEST_P(StreamedSchedules, AnswersAreThoseOfEachAlone) {
  const auto directory = GetParam().Directory();
  if (!directory) GTEST_SKIP() << kNoSharedData;
  std::atomic<std::uint32_t> number = 0;
  const ScheduleCounts counts = ExpectOneAnswerEach(
      *directory,
      [&number](const std::filesystem::path& model, const ScheduleSetup& setup) {
        constexpr GuessMode kModes[] = {GuessMode::kOn, GuessMode::kAuto, GuessMode::kOff};
        const std::uint32_t variant = number++;
        // Most of them pause between layers, as a program that streams does.
        const ScheduleSetup used = variant % 3 == 2 ? setup : WithPauses(setup);
        return LoadOn({.n_threads = 1 + static_cast<int>(variant % 2),
                       .parts = StreamedParts({.slots = 12 + variant % 3 * 4,
                                               .n_read_threads = 8,
                                               .prefetch = variant % 4 != 3,
                                               .guesses = kModes[variant / 2 % 3],
                                               .open = OpenFaulty(ReadLate)})},
                      model, used);
      },
      6);
  EXPECT_GT(counts.answers, counts.schedules);
  // In few schedules, as sanitizers have time for, nothing may decode beside a prompt.
  if (counts.schedules >= 6) {
    EXPECT_GT(counts.metrics.pauses, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, StreamedSchedules,
                         ::testing::Values(kFairy, kFlashMini, kProMini, kDSparkMini), NameOfCase);

}  // namespace
}  // namespace fathom::testing
