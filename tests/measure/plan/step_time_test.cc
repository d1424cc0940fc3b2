#include "measure/plan/step_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/slice/shapes.h"
#include "tests/measure/plan/machines.h"

namespace fathom::measure::plan {
namespace {

using testing::FlashSizes;
using testing::RoundMachine;

constexpr double kNoLimit = 1e30;
constexpr std::int64_t kDepth = 20'000;  // far enough that rows are chosen

StepWork Decoding(std::int64_t n) {
  return {.n_tokens = n,
          .n_sequences = n,
          .position = kDepth,
          .last_position = kDepth,
          .n_logit_rows = n};
}

StageTime ComputeTime(const Hardware& machine, const ParallelLayout& layout, int stage,
                      const StepWork& work, const PlannedExperts& options = {}) {
  StepTimes times(FlashSizes(), machine, ZipfLoad(FlashConfig(), 0), layout, options);
  return times.Compute(stage, work);
}

// Where nothing but reading takes time, a step takes what it reads.
TEST(StepTimeTest, ReadingTakesTheBytesOfTheFormulas) {
  Hardware machine = RoundMachine(1, 1);
  machine.device.fp4_flops = machine.device.fp8_flops = machine.device.bf16_flops = kNoLimit;
  const bench::ModelCosts& costs = FlashSizes().costs();
  for (const std::int64_t n : {1, 8, 32}) {
    const auto tokens = static_cast<double>(n);
    const double experts = 43 * 256 * (1 - std::pow(1 - 6.0 / 256, tokens));
    const double bytes = costs.Dense(n, n).bytes + costs.RoutedBytes(experts) +
                         tokens * costs.Attention(kDepth).bytes;
    EXPECT_NEAR(ComputeTime(machine, {}, 0, Decoding(n)).Total() * 1e12 / bytes, 1, 1e-9) << n;
  }
  // Half of the rate takes twice as long.
  const double whole = ComputeTime(machine, {}, 0, Decoding(8)).Total();
  machine.memory_efficiency = 0.5;
  EXPECT_NEAR(ComputeTime(machine, {}, 0, Decoding(8)).Total() / whole, 2, 1e-9);
}

TEST(StepTimeTest, ComputingTakesTheOperationsOfTheFormulas) {
  Hardware machine = RoundMachine(1, 1);
  machine.device.bytes_per_second = kNoLimit;
  machine.device.fp4_flops = machine.device.fp8_flops = machine.device.bf16_flops = 1e12;
  const bench::ModelCosts& costs = FlashSizes().costs();
  const double flops = costs.Dense(64, 1).flops + 64 * costs.RoutedPerToken().flops +
                       64 * costs.Attention(kDepth).flops;
  const StepWork work = {
      .n_tokens = 64, .position = kDepth, .last_position = kDepth + 32, .n_logit_rows = 1};
  EXPECT_NEAR(ComputeTime(machine, {}, 0, work).Total() * 1e12 / flops, 1, 1e-9);
}

TEST(StepTimeTest, OverheadsAreOfStepsAndLayers) {
  Hardware machine = RoundMachine(1, 2);
  machine.step_seconds = 0.5;
  machine.layer_seconds = 0.25;
  EXPECT_DOUBLE_EQ(ComputeTime(machine, {}, 0, Decoding(1)).overhead, 0.5 + 43 * 0.25);
  const ParallelLayout stages = {.n_stages = 2};
  EXPECT_DOUBLE_EQ(ComputeTime(machine, stages, 0, Decoding(1)).overhead +
                       ComputeTime(machine, stages, 1, Decoding(1)).overhead,
                   2 * 0.5 + 43 * 0.25);
}

// Together, the stages read and compute what one stage does, and send the streams on once.
TEST(StepTimeTest, StagesAddUpToTheWhole) {
  const Hardware machine = RoundMachine(1, 4);
  StageTime sum;
  for (int stage = 0; stage < 4; ++stage) {
    sum += ComputeTime(machine, {.n_stages = 4}, stage, Decoding(4));
  }
  const StageTime whole = ComputeTime(machine, {}, 0, Decoding(4));
  EXPECT_NEAR(sum.dense / whole.dense, 1, 1e-12);
  EXPECT_NEAR(sum.experts / whole.experts, 1, 1e-12);
  EXPECT_NEAR(sum.attention / whole.attention, 1, 1e-12);
  EXPECT_EQ(whole.exchange + whole.streams, 0);
  EXPECT_NEAR(sum.streams, 3 * (1e-6 + 4 * 32768 / 100e9), 1e-12);
  EXPECT_NEAR(sum.exchange, 1e-6 + 4 * 4 * 129280 / 100e9, 1e-12);  // logits
}

// Computed by hand, for a token on two tensor ranks without expert ranks.
TEST(StepTimeTest, TensorRanksExchangeTwoSumsALayer) {
  const StageTime time = ComputeTime(RoundMachine(1, 2), {.n_tensor = 2}, 0, Decoding(1));
  const double sum = 4 * 4096 / 2 / 100e9;  // seconds of half a row of numbers
  const double layer = 2 * ((1e-6 + 4 * sum) + (1e-6 + sum));
  const double embedding = 1e-6 + 2 * 4096 / 100e9;
  const double logits = 1e-6 + 4 * 129280 / 2 / 100e9;
  EXPECT_NEAR(time.exchange, 43 * layer + embedding + logits, 1e-12);
  const StageTime alone = ComputeTime(RoundMachine(1, 1), {}, 0, Decoding(1));
  EXPECT_LT(time.dense, alone.dense);
  EXPECT_GT(time.dense, alone.dense / 2);  // not everything is cut
  EXPECT_NEAR(time.experts / alone.experts, 1, 1e-12);
}

// However few rows there are to choose from, each rank scores its own; all ranks then wait for the
// lists and for the rows.
TEST(StepTimeTest, TensorRanksSendTheRowsThatTheyDivide) {
  Hardware machine = RoundMachine(1, 4);
  machine.device.bytes_per_second = kNoLimit;
  machine.device.bf16_flops = kNoLimit;
  const ParallelLayout whole = {.n_tensor = 4};
  ParallelLayout divided = whole;
  divided.decode_context_parallel = true;
  constexpr double kChoosing = 21;  // layers
  const StepWork work = {.position = 8'191, .last_position = 8'191};
  const StageTime all = ComputeTime(machine, whole, 0, work);
  const StageTime some = ComputeTime(machine, divided, 0, work);
  EXPECT_NEAR(some.attention, all.attention / 4, 1e-12);
  const double lists = 1e-6 + 512 * 8 * 3 / 100e9;
  const double rows = 1e-6 + 512 * 584 * 3 / 4 / 100e9;
  EXPECT_NEAR(some.exchange - all.exchange, kChoosing * (lists + rows), 1e-12);
}

// If the choice of rows is shared, a rank scores its part of them and sends the best; else all
// rows.
TEST(StepTimeTest, TensorRanksShareTheChoiceOfRows) {
  Hardware machine = RoundMachine(1, 4);
  machine.device.bytes_per_second = kNoLimit;
  machine.device.bf16_flops = kNoLimit;
  const ParallelLayout layout = {.n_tensor = 4};
  const auto work = [](std::int64_t n_tokens, std::int64_t position) {
    return StepWork{.n_tokens = n_tokens, .position = position, .last_position = position};
  };
  constexpr double kChoosing = 21;  // layers
  const auto scoring = [](std::int64_t n_tokens, std::int64_t position) {
    const auto n_rows = static_cast<double>((position + 1) / 4 * n_tokens);
    return kChoosing * n_rows * 64 * (2 * 128 + 3) / 2e12;
  };
  EXPECT_NEAR(ComputeTime(machine, layout, 0, work(1, 8'191)).attention, scoring(1, 8'191), 1e-12);
  EXPECT_NEAR(ComputeTime(machine, layout, 0, work(1, 65'535)).attention, scoring(1, 65'535) / 4,
              1e-12);
  EXPECT_NEAR(ComputeTime(machine, layout, 0, work(512, 8'191)).attention, scoring(512, 8'191) / 4,
              1e-12);
  // Lists of 512 rows, of 8 bytes, to three others.
  const auto told = [&](std::int64_t n_tokens, std::int64_t position) {
    return ComputeTime(machine, layout, 0, work(n_tokens, position)).exchange -
           ComputeTime(machine, layout, 0, work(n_tokens, 0)).exchange;
  };
  EXPECT_EQ(told(1, 8'191), 0);
  EXPECT_NEAR(told(1, 65'535), kChoosing * (1e-6 + 512 * 8 * 3 / 100e9), 1e-12);
  EXPECT_NEAR(told(512, 8'191), kChoosing * (1e-6 + 128 * 512 * 8 * 3 / 100e9), 1e-9);
  // Queries of 64 heads from 1024 numbers, weights from 4096, as bf16.
  const double queries = 2 * 512.0 * 64 * (128 * 1024 + 4096) * kChoosing;
  machine.device.bf16_flops = 1e12;
  EXPECT_NEAR(ComputeTime(machine, layout, 0, work(512, 0)).dense -
                  ComputeTime(machine, layout, 0, work(512, 8'191)).dense,
              queries * 3 / 4 / 1e12, 1e-9);
}

TEST(StepTimeTest, ExpertRanksShareTheExpertsAndTellTheirRows) {
  const ParallelLayout layout = {.n_tensor = 2, .expert_parallel = true};
  const Hardware machine = RoundMachine(1, 2);
  const StageTime time = ComputeTime(machine, layout, 0, Decoding(1));
  const StageTime whole = ComputeTime(machine, {.n_tensor = 2}, 0, Decoding(1));
  EXPECT_LT(time.experts, whole.experts);
  EXPECT_GT(time.experts, whole.experts / 2);  // one of the two has more of six
  // The busiest rank's rows, of 8 KB each, to the other rank: 3 and 0.56 deviations.
  const double deviation = std::sqrt(3 * (1 - 6.0 / 256));
  const double rows = 3 + deviation / std::sqrt(std::acos(-1.0));
  EXPECT_NEAR(time.exchange - whole.exchange, 43 * (1e-6 + rows * 8192 / 100e9), 1e-9);
}

// Transfers during the experts' computation take no time of their own, until they take longer.
TEST(StepTimeTest, FusedExchangeHidesBehindTheExperts) {
  const ParallelLayout layout = {.n_data = 4, .expert_parallel = true};
  Hardware machine = RoundMachine(1, 4);
  StepWork work = Decoding(64);
  work.n_data = 4;
  work.n_logit_rows = 0;  // their transfer would add time
  const PlannedExperts fused = {.exchange = ExpertPath::kFused};
  machine.node.bytes_per_second = kNoLimit;
  machine.node.latency = 0;
  const double experts = ComputeTime(machine, layout, 0, work, fused).experts;
  EXPECT_DOUBLE_EQ(ComputeTime(machine, layout, 0, work, fused).exchange, 0);
  machine.node.latency = experts / 43;  // of two rounds, half is hidden
  const double moved = ComputeTime(machine, layout, 0, work, fused).exchange;
  EXPECT_NEAR(moved / experts, 1, 1e-6);
}

TEST(StepTimeTest, ImbalanceSlowsTheExpertsAndBalancingHelps) {
  const ParallelLayout layout = {.n_data = 8, .expert_parallel = true};
  const Hardware machine = RoundMachine(1, 8);
  StepWork work = Decoding(512);
  work.n_data = 8;
  const auto experts = [&](double exponent, std::optional<std::int64_t> n_redundant) {
    StepTimes times(FlashSizes(), machine, ZipfLoad(FlashConfig(), exponent), layout,
                    {.n_redundant = n_redundant});
    EXPECT_EQ(n_redundant.has_value(), times.imbalance() != times.plain_imbalance());
    return times.Compute(0, work).experts;
  };
  const double even = ComputeTime(machine, layout, 0, work).experts;
  const double skewed = experts(1, std::nullopt);
  const double balanced = experts(1, 64);
  EXPECT_GT(skewed, 1.3 * even);
  EXPECT_LT(balanced, 0.8 * skewed);
}

}  // namespace
}  // namespace fathom::measure::plan
