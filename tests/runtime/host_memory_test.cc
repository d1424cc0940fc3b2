// Loading with less memory than a model has: what is streamed, and that no bit depends on it.
#include "runtime/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experts/streaming/streamed_experts.h"
#include "model/batch.h"
#include "planning/host_shares.h"
#include "planning/run_plan.h"
#include "runtime/loaded_model.h"
#include "runtime/runtime.h"
#include "tests/testing/shared_data.h"

namespace fathom::runtime {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ServingOptions kServing = {.max_batch_tokens = 24};
constexpr std::int64_t kContext = 200;

class HostMemoryTest : public ::testing::Test {
 protected:
  static LoadPlan PlanOfSizes() {
    LoadPlan plan = MakeLoadPlan(kServing, kContext, 4);
    plan.sizes.kv_memory_bytes = 0;
    plan.sizes.max_logit_rows = 24;
    return plan;
  }

  // The plan of a run that has memory for everything.
  HostPlan WholePlan(bool with_draft, int n_threads = 2) const {
    const Checkpoint checkpoint = Checkpoint::Open(files_.directory).value();
    LoadPlan plan = PlanOfSizes();
    plan.sizes.with_draft = with_draft;
    return PlanHost(files_.config, checkpoint, plan, n_threads, std::int64_t{1} << 40)
        .value()
        .front();
  }
  // Memory for all dense weights but the drafter's and so many experts.
  std::int64_t MemoryFor(std::int64_t n_slots, int n_threads = 2) const {
    const HostNeeds needs = WholePlan(false, n_threads).needs;
    return needs.activations + needs.pauses + needs.caches + needs.dense + needs.head +
           n_slots * needs.slot;
  }

  RuntimeEvents Events() {
    return {.info = [this](const std::string& message) { infos_.push_back(message); },
            .warn = [this](const std::string& message) { warnings_.push_back(message); }};
  }

  Result<LoadedModel> Load(std::optional<std::int64_t> memory, int n_threads = 2) {
    warnings_.clear();
    ranks_ = std::make_unique<RankProcess>(RankOptions());
    EXPECT_TRUE(ranks_->Join());
    return LoadedModel::Load(files_.config, Checkpoint::Open(files_.directory).value(),
                             {.n_threads = n_threads, .memory = memory}, PlanOfSizes(), *ranks_,
                             Events());
  }

  // The logits of all tokens: a prompt in steps of 24, then one by one.
  static std::vector<float> ComputeLogits(Model& model) {
    std::vector<float> all;
    Batch batch;
    for (std::int32_t position = 0; position < 90;) {
      const std::int32_t n = position < 72 ? 24 : 1;
      std::vector<Token> tokens;
      std::vector<std::int32_t> rows;
      for (std::int32_t i = 0; i < n; ++i) {
        tokens.push_back((position + i) * 37 % 4000);
        rows.push_back(i);
      }
      batch.Clear();
      batch.Add(0, position, tokens);
      EXPECT_TRUE(model.Forward(batch));
      const Matrix<const float> logits = model.Logits(rows).value();
      all.insert(all.end(), logits.data, logits.data + logits.rows * logits.cols);
      position += n;
    }
    return all;
  }

  const ModelFiles files_ = ModelFiles::Read(testing::ProjectPath("models/fairy")).value();
  std::unique_ptr<RankProcess> ranks_;
  std::vector<std::string> infos_, warnings_;
};

TEST_F(HostMemoryTest, StreamedExpertsGiveTheSameBits) {
  Result<LoadedModel> mapped = Load(std::int64_t{1} << 30);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(StreamedExperts::FindIn(mapped->model()), nullptr);
  const std::vector<float> expected = ComputeLogits(mapped->model());
  const std::int64_t least = WholePlan(false).needs.LeastSlots();
  for (const auto& [n_slots, n_threads] :
       {std::pair(least, 2), std::pair(least + 3, 1), std::pair(std::int64_t{30}, 2)}) {
    SCOPED_TRACE(n_slots);
    const Result<LoadedModel> streamed = Load(MemoryFor(n_slots, n_threads), n_threads);
    ASSERT_TRUE(streamed) << streamed.error().message;
    const StreamedExperts* const store = StreamedExperts::FindIn(streamed->model());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->counts().slots, n_slots);
    const std::vector<float> found = ComputeLogits(streamed->model());
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
    EXPECT_GT(store->counts().read_experts, 48);
    EXPECT_THAT(warnings_, Contains(HasSubstr(" of 48 experts (")));
  }
}

// The pool at its least while steps run, by fake files of a machine under pressure.
TEST_F(HostMemoryTest, PressureShrinksThePoolAndChangesNoBit) {
  Result<LoadedModel> mapped = Load(std::nullopt);
  ASSERT_TRUE(mapped) << mapped.error().message;
  const std::vector<float> expected = ComputeLogits(mapped->model());
  const Result<LoadedModel> streamed = Load(MemoryFor(30));
  ASSERT_TRUE(streamed) << streamed.error().message;
  StreamedExperts* const store = StreamedExperts::FindIn(streamed->model());
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(ComputeLogits(streamed->model()), expected);

  const testing::TemporaryDirectory root;
  std::filesystem::create_directories(root.path() / "proc");
  std::ofstream(root.path() / "proc/meminfo") << "MemAvailable: 1000 kB\n";
  const HostNeeds needs = WholePlan(false).needs;
  MemoryPressure pressure(1 << 30, root.path());
  PoolGovernor governor(30, needs.LeastSlots(), needs.slot);
  warnings_.clear();
  std::vector<bool> guesses;  // what is said of them
  const auto watch = [&](int seconds) {
    PoolWatch::Watch(
        pressure, governor,
        [&](std::int64_t slots, bool allows_guesses) {
          store->SetSlots(slots);
          guesses.push_back(allows_guesses);
        },
        Events(), MemoryPressure::Clock::time_point(std::chrono::seconds(seconds)));
  };
  for (int t = 0; t < 60; t += 2) watch(t);
  EXPECT_THAT(guesses, Each(false));
  EXPECT_EQ(governor.slots(), needs.LeastSlots());
  EXPECT_EQ(warnings_.size(), 2u);  // when it begins, and when nothing is left to give
  EXPECT_EQ(ComputeLogits(streamed->model()), expected);
  EXPECT_EQ(store->counts().slots, needs.LeastSlots());
  std::ofstream(root.path() / "proc/meminfo") << "MemAvailable: 9000000 kB\n";
  watch(118);
  EXPECT_TRUE(guesses.back());
}

TEST_F(HostMemoryTest, DenseWeightsThatDoNotFitStayMapped) {
  Result<LoadedModel> mapped = Load(std::nullopt);
  ASSERT_TRUE(mapped) << mapped.error().message;
  const std::vector<float> expected = ComputeLogits(mapped->model());
  const Result<LoadedModel> streamed =
      Load(MemoryFor(WholePlan(false).needs.LeastSlots()) - 4'000'000);
  ASSERT_TRUE(streamed) << streamed.error().message;
  EXPECT_THAT(warnings_, Contains(HasSubstr(" GB of them do not fit; ")));
  EXPECT_EQ(ComputeLogits(streamed->model()), expected);
}

TEST_F(HostMemoryTest, BelowTheLeastPoolIsRefused) {
  const HostNeeds needs = WholePlan(/*with_draft=*/false).needs;
  const std::int64_t least =
      needs.activations + needs.pauses + needs.caches + needs.LeastSlots() * needs.slot;
  EXPECT_TRUE(Load(least));
  const Result<LoadedModel> loaded = Load(least - 1);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(loaded.error().message, HasSubstr("memory of the host: expected at least "));
}

// The sizes of a plan are those that loading allocates.
TEST_F(HostMemoryTest, PlansWhatLoadingAllocates) {
  const Result<LoadedModel> loaded = Load(std::nullopt);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Model& model = loaded->model();
  const HostPlan plan = WholePlan(/*with_draft=*/true);
  EXPECT_NEAR(static_cast<double>(plan.needs.caches), static_cast<double>(model.cache_bytes()), 64);
  EXPECT_GE(plan.needs.activations, model.workspace_bytes());
  EXPECT_LT(plan.needs.activations, 4 * model.workspace_bytes());
  const std::int64_t embedding = files_.config.vocab_size * files_.config.hidden_size * 2;
  EXPECT_EQ(plan.needs.WeightBytes() + plan.needs.DraftBytes() + embedding, model.weight_bytes());
}

TEST_F(HostMemoryTest, TheDrafterIsLeftOutWhereManyExpertsAreReadFromDisk) {
  const auto load = [&](std::int64_t memory, std::optional<std::int64_t> depth) {
    ServingOptions serving = kServing;
    serving.draft_depth = depth;
    serving.kv_memory_bytes = WholePlan(true).needs.caches;
    return Runtime::Load(files_, {.run = {.n_threads = 1, .n_context = kContext, .memory = memory},
                                  .serving = serving,
                                  .events = Events()});
  };
  const std::int64_t memory = MemoryFor(30, 1);
  const auto automatic = load(memory, std::nullopt);
  ASSERT_TRUE(automatic) << automatic.error().message;
  EXPECT_FALSE((*automatic)->model().options().with_draft);
  const auto fixed = load(memory + 2'000'000, 2);
  ASSERT_TRUE(fixed) << fixed.error().message;
  EXPECT_TRUE((*fixed)->model().options().with_draft);
  // 0.9 of the choices find more than half of the experts in memory, which the drafter leaves.
  const HostNeeds needs = WholePlan(true, 1).needs;
  const std::int64_t many = needs.n_experts * 6 / 10;
  const std::int64_t few = needs.n_experts * 4 / 10;
  const auto memory_for = [&](std::int64_t n_slots) {
    return needs.activations + needs.pauses + needs.caches + needs.dense + needs.head +
           needs.draft + n_slots * needs.slot;
  };
  warnings_.clear();
  const auto most_hit = load(memory_for(many), std::nullopt);
  ASSERT_TRUE(most_hit) << most_hit.error().message;
  EXPECT_TRUE((*most_hit)->model().options().with_draft);
  EXPECT_THAT(warnings_, Contains(HasSubstr("expected hit rate 0.9")));
  const auto half_hit = load(memory_for(few), std::nullopt);
  ASSERT_TRUE(half_hit) << half_hit.error().message;
  EXPECT_FALSE((*half_hit)->model().options().with_draft);
  const auto large = load(std::int64_t{1} << 30, std::nullopt);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_TRUE((*large)->model().options().with_draft);
}

TEST_F(HostMemoryTest, MoreThanIsUsableIsAWarning) {
  const RunOptions run = {.memory = std::int64_t{1} << 60};
  EXPECT_EQ(FindHostBudget(run, 1, Events()), run.memory);
  EXPECT_THAT(warnings_, Contains(HasSubstr("--memory: 1152921504.607 GB are more than the ")));
  warnings_.clear();
  EXPECT_EQ(FindHostBudget({.memory = 1}, 1, Events()), 1);
  const std::int64_t usable = FindHostBudget({}, 1, Events()).value_or(0);
  EXPECT_GT(usable, 0);
  EXPECT_THAT(warnings_, IsEmpty());
  // Three quarters are too much, where a process takes half for its own work.
  const RunOptions beside = {.memory = usable / 4 * 3, .memory_beside = usable / 2};
  EXPECT_EQ(FindHostBudget(beside, 1, Events()), beside.memory);
  EXPECT_THAT(warnings_, Contains(HasSubstr("that are usable")));
}

}  // namespace
}  // namespace fathom::runtime
