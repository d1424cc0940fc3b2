// Schedules on several ranks: the followers' caches must follow the decisions of the first rank,
// whatever was shared, forked, preempted, drafted or taken back.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distributed/model_ranks.h"
#include "tests/engine/ranks/ranks_model.h"
#include "tests/engine/schedule_checks.h"
#include "tests/model/checkpoint_case.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

struct RanksCase {
  const char* name;
  CheckpointCase checkpoint;
  RankCounts counts;
  TestMemory memory = TestMemory::kHost;
  std::int64_t slots = 0;  // of experts that each rank streams from disk; 0: it has them
  std::uint64_t n_schedules = 4;
  std::uint64_t first_seed = 0;
};

RankCounts MakeDataRanks(int n_data, int n_stages, ExpertPath path) {
  return {.n_stages = n_stages, .expert_parallel = true, .n_data = n_data, .expert_path = path};
}

class SchedulesOnRanks : public ::testing::TestWithParam<RanksCase> {};

TEST_P(SchedulesOnRanks, AnswersAreThoseOfEachAlone) {
  const auto directory = GetParam().checkpoint.Directory();
  if (!directory) GTEST_SKIP() << kNoSharedData;
  const RankCounts& counts = GetParam().counts;
  std::uint32_t number = 0;
  const ScheduleCounts found = ExpectOneAnswerEach(
      *directory,
      [&](const std::filesystem::path& path, const ScheduleSetup& any) {
        // Ranks that stream pause between layers, as a program does, in most schedules.
        const bool pauses = GetParam().slots > 0 && counts.n_stages == 1 && number++ % 3 != 2;
        const ScheduleSetup setup = pauses ? WithPauses(any) : any;
        return std::make_unique<RanksModel>(
            path, counts,
            ModelOptions{.max_sequences = setup.max_sequences,
                         .max_context = kContext,
                         .max_batch_tokens = setup.max_batch_tokens,
                         .max_logit_rows = setup.max_logit_rows,
                         .pause_tokens = setup.pause_tokens,
                         .with_draft = setup.engine.draft.enabled},
            setup.small_memory, GetParam().memory,
            StreamingOptions{
                .slots = GetParam().slots, .n_read_threads = 4, .calibration_seconds = 0.01});
      },
      GetParam().n_schedules, true, counts.n_data, {.first_seed = GetParam().first_seed});
  // Sanitizers run few schedules, in which nothing may decode beside a prompt.
  if (GetParam().slots > 0 && counts.n_stages == 1 && found.schedules >= 4) {
    EXPECT_GT(found.metrics.pauses, 0);
  }
}

// Each layout runs schedules of its own: what one of them does is done by many layouts, and all
// together meet more different schedules than if each began with the same seed.
std::vector<RanksCase> Layouts() {
  std::vector<RanksCase> layouts = {
      // As many schedules as it takes to see that they are worth something.
      {.name = "fairy_tensor_2", .checkpoint = kFairy, .counts = {2, 1, true}, .n_schedules = 10},
      {"fairy_tensor_2_divided_rows", kFairy, {.n_tensor = 2, .decode_context_parallel = true}},
      {"pro_mini_tensor_4_divided_rows",
       kProMini,
       {.n_tensor = 4, .decode_context_parallel = true}},
      {"fairy_stages_2", kFairy, {1, 2, false}},
      {"fairy_tensor_2_remote_memory", kFairy, {2, 1, true}, TestMemory::kRemoteAwaited},
      {"fairy_tensor_2_stages_2", kFairy, {2, 2, true}},
      {"fairy_tensor_2_moving_experts", kFairy, {2, 1, true, 4}},
      // Pools of the fewest experts, and of half of a rank's.
      {"fairy_tensor_2_streamed", kFairy, {2, 1, true}, TestMemory::kHost, /*slots=*/8},
      {"fairy_tensor_2_streamed_half", kFairy, {2, 1, true}, TestMemory::kHost, /*slots=*/14},
      {"fairy_data_4_streamed", kFairy, MakeDataRanks(4, 1, ExpertPath::kFused), TestMemory::kHost,
       /*slots=*/8},
      {"fairy_tensor_2_stages_2_streamed",
       kFairy,
       {2, 2, true},
       TestMemory::kHost,
       /*slots=*/8},
      {"flash_mini_data_2_streamed", kFlashMini, MakeDataRanks(2, 1, ExpertPath::kGather),
       TestMemory::kHost, /*slots=*/24},
      {"dspark_mini_tensor_2_streamed",
       kDSparkMini,
       {2, 1, true},
       TestMemory::kHost,
       /*slots=*/24},
      {"fairy_data_2_fused", kFairy, MakeDataRanks(2, 1, ExpertPath::kFused)},
      {"fairy_data_2_gathered", kFairy, MakeDataRanks(2, 1, ExpertPath::kGather)},
      {"fairy_data_4_fused", kFairy, MakeDataRanks(4, 1, ExpertPath::kFused)},
      {"fairy_data_2_stages_2", kFairy, MakeDataRanks(2, 2, ExpertPath::kFused)},
      {"flash_mini_data_2", kFlashMini, MakeDataRanks(2, 1, ExpertPath::kGather)},
      {"flash_mini_stages_2", kFlashMini, {1, 2, false}},
      {"pro_mini_tensor_2_stages_2", kProMini, {2, 2, true}},
      {"dspark_mini_tensor_2", kDSparkMini, {2, 1, true}},
      {"dspark_mini_data_2", kDSparkMini, MakeDataRanks(2, 1, ExpertPath::kFused)},
      {"base_mini_stages_4", kBaseMini, {1, 4, false}}};
  std::uint64_t next_seed = 1;
  for (RanksCase& layout : layouts) {
    layout.first_seed = next_seed;
    next_seed += layout.n_schedules;
  }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, SchedulesOnRanks, ::testing::ValuesIn(Layouts()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace fathom::testing
