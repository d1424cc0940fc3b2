// One answer each, where several ranks compute it: the followers' caches must be what the first
// rank's decisions have made of them, whatever was shared, forked, preempted, drafted or taken
// back.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "model/model_ranks.h"
#include "tests/engine/ranks_model.h"
#include "tests/engine/schedule_checks.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

struct Cut {
  const char* name;
  const char* golden;  // in the golden data; nullptr: the embedded model
  RankCounts counts;
};

RankCounts DataRanksOf(int n_data, int n_stages, ExpertPath path) {
  return {.n_stages = n_stages, .expert_parallel = true, .n_data = n_data, .expert_path = path};
}

class SchedulesOnRanks : public ::testing::TestWithParam<Cut> {};

TEST_P(SchedulesOnRanks, AnswersAreThoseOfEachAlone) {
  const auto directory = GetParam().golden == nullptr ? std::optional(ProjectPath("models/fairy"))
                                                      : SharedData(GetParam().golden);
  if (!directory) GTEST_SKIP() << kNoSharedData;
  const RankCounts& counts = GetParam().counts;
  ExpectOneAnswerEachOf(
      *directory,
      [&](const std::filesystem::path& path, const ScheduleSetup& setup) {
        return std::make_unique<RanksModel>(path, counts,
                                            ModelOptions{.max_sequences = setup.max_sequences,
                                                         .max_context = kContext,
                                                         .max_batch_tokens = setup.max_batch_tokens,
                                                         .max_logit_rows = setup.max_logit_rows,
                                                         .with_mtp = setup.engine.draft.enabled},
                                            setup.small_memory);
      },
      10, true, counts.n_data);
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, SchedulesOnRanks,
    ::testing::Values(Cut{"fairy_tensor_2", nullptr, {2, 1, true}},
                      Cut{"fairy_stages_2", nullptr, {1, 2, false}},
                      Cut{"fairy_tensor_2_stages_2", nullptr, {2, 2, true}},
                      Cut{"fairy_tensor_2_moving_experts", nullptr, {2, 1, true, 4}},
                      Cut{"fairy_data_2_fused", nullptr, DataRanksOf(2, 1, ExpertPath::kFused)},
                      Cut{"fairy_data_2_gathered", nullptr, DataRanksOf(2, 1, ExpertPath::kGather)},
                      Cut{"fairy_data_4_fused", nullptr, DataRanksOf(4, 1, ExpertPath::kFused)},
                      Cut{"fairy_data_2_stages_2", nullptr, DataRanksOf(2, 2, ExpertPath::kFused)},
                      Cut{"flash_mini_data_2", "oracle/flash-mini",
                          DataRanksOf(2, 1, ExpertPath::kGather)},
                      Cut{"flash_mini_stages_2", "oracle/flash-mini", {1, 2, false}},
                      Cut{"pro_mini_tensor_2_stages_2", "oracle/pro-mini", {2, 2, true}},
                      Cut{"base_mini_stages_4", "oracle/base-mini", {1, 4, false}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace fathom::testing
