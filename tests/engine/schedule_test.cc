// Whatever runs beside a request, its answer is the one it would get alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "tests/engine/compiled_constraints.h"
#include "tests/engine/fake_model.h"
#include "tests/engine/model_on_backend.h"
#include "tests/engine/schedule_checks.h"
#include "tests/testing/shared_data.h"

namespace fathom::testing {
namespace {

constexpr std::int64_t kScheduleVocabulary = 40;
// Suffices for everything that happens by chance; FATHOM_SCHEDULES may ask for fewer.
constexpr std::int64_t kManySchedules = 20;

std::shared_ptr<LanguageModel> MakeFake(const ScheduleSetup& setup, int n_data = 1,
                                        std::int64_t vocab_size = kScheduleVocabulary) {
  FakeModelOptions options = {
      .limits = {.vocab_size = vocab_size,
                 .max_sequences = setup.max_sequences,
                 .max_context = kContext,
                 .max_batch_tokens = setup.max_batch_tokens,
                 .max_logit_rows = setup.max_logit_rows,
                 .rollback_tokens = 8,
                 .max_draft_depth =
                     setup.engine.draft.enabled ? ScheduleLimits().max_draft_depth : 0,
                 .most_in_flight = setup.most_in_flight,
                 .pause_tokens = setup.pause_tokens},
      .n_data = n_data};
  if (setup.small_memory) {
    options.memory_bytes = SmallMemory(FakeModel(options).cache());
  }
  return std::make_unique<FakeModel>(options);
}

ScheduleCounts ExpectOneAnswerOfFake(int n_data, std::uint64_t n_schedules, const MakeModel& make,
                                     std::int64_t vocab_size = kScheduleVocabulary) {
  const ScheduleLimits limits = {.vocab_size = vocab_size,
                                 .max_context = kContext,
                                 .max_prompt = 550,
                                 .max_answer = 150,
                                 .max_requests = 16,
                                 .eos_tokens = {1},
                                 .token_bytes = LetterOfFive,
                                 .budgets = true,
                                 .prompt_logprobs = true,
                                 .constraints = true,
                                 .n_data = n_data};
  const ReferenceModel alone = {.logits =
                                    [vocab_size](std::span<const Token> tokens) {
                                      return FakeModel::Expected(tokens, vocab_size, 128);
                                    },
                                .eos_tokens = {1},
                                .token_bytes = LetterOfFive,
                                .max_context = kContext};
  return ExpectOneAnswerEach(
      limits, make,
      [&](const Request& request, std::uint32_t choice) {
        return AnswerAlone(alone, request, choice);
      },
      ChosenSeeds(n_schedules));
}

TEST(Schedules, OfAModelThatKnowsOnlyItsCaches) {
  ExpectOneAnswerOfFake(1, 150, [](const ScheduleSetup& setup) { return MakeFake(setup); });
}

// Few tokens repeat often: many steps find some to look up, and one in eight is right.
TEST(Schedules, OfTextsThatRepeat) {
  constexpr std::int64_t kFew = 8;
  const ScheduleCounts counts = ExpectOneAnswerOfFake(
      1, 100, [](const ScheduleSetup& setup) { return MakeFake(setup, 1, kFew); }, kFew);
  if (counts.schedules >= kManySchedules) {
    EXPECT_GT(counts.metrics.looked_up[3], counts.schedules / 5);
    EXPECT_GT(counts.metrics.accepted_lookups[0], counts.schedules / 2);
  }
}

// Sequences decode between the layers of steps of prompts, and some of these steps are given up.
TEST(Schedules, OfAModelThatPauses) {
  const ScheduleCounts counts = ExpectOneAnswerOfFake(
      1, 150, [](const ScheduleSetup& setup) { return MakeFake(WithPauses(setup)); });
  if (counts.schedules >= kManySchedules) {
    EXPECT_GT(counts.metrics.pauses, counts.schedules);
    EXPECT_GT(counts.metrics.stopped_passes, 0);
  }
}

// A rank that reads what another one has computed finds none of the text there.
TEST(Schedules, OfDataRanksThatKnowOnlyTheirCaches) {
  for (const int n_data : {2, 3, 4}) {
    ExpectOneAnswerOfFake(n_data, 50,
                          [n_data](const ScheduleSetup& setup) { return MakeFake(setup, n_data); });
  }
}

// --- Models with weights ---

std::shared_ptr<LanguageModel> LoadFor(const std::filesystem::path& directory,
                                       const ScheduleSetup& setup) {
  return LoadOn({}, directory, setup);
}

TEST(Schedules, OfTheEmbeddedModel) {
  const auto config = ReadModelConfig(ProjectPath("models/fairy") / "config.json");
  ASSERT_TRUE(config) << config.error().message;
  CompiledConstraints constraints(config->vocab_size);
  ExpectOneAnswerEach(ProjectPath("models/fairy"), LoadFor, 16, true, 1,
                      {.make_constraint = [&constraints](std::uint64_t number) {
                        return constraints.Choose(number);
                      }});
}

TEST(Schedules, OfTheEmbeddedModelInRemoteMemory) {
  for (const TestMemory memory : {TestMemory::kRemote, TestMemory::kRemoteAwaited}) {
    ExpectOneAnswerEach(
        ProjectPath("models/fairy"),
        [memory](const std::filesystem::path& directory, const ScheduleSetup& setup) {
          return LoadOn({.memory = memory}, directory, setup);
        },
        3);
  }
}

class SchedulesOfOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(SchedulesOfOracle, AnswersAreThoseOfEachAlone) {
  const auto directory = SharedData(std::string("oracle/") + GetParam());
  if (!directory) GTEST_SKIP() << kNoSharedData;
  ExpectOneAnswerEach(*directory, LoadFor, 8);
}

std::string TestName(const ::testing::TestParamInfo<const char*>& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, SchedulesOfOracle,
                         ::testing::Values("flash-mini", "pro-mini", "base-mini", "dspark-mini"),
                         TestName);

}  // namespace
}  // namespace fathom::testing
