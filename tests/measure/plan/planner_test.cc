#include "measure/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "measure/slice/shapes.h"
#include "tests/measure/plan/machines.h"

namespace fathom::measure::plan {
namespace {

using testing::FlashSizes;
using ::testing::MatchesRegex;
using testing::RoundMachine;

PlannedLayouts Make(const Hardware& machine, const Workload& workload) {
  return PlanLayouts(FlashSizes(), machine, ZipfLoad(FlashConfig(), 0.5), workload).value();
}

const PlannedLayout& FindRow(const PlannedLayouts& plan, const std::string& flags) {
  const auto row = std::find_if(
      plan.rows.begin(), plan.rows.end(),
      [&](const PlannedLayout& candidate) { return Flags(candidate.layout) == flags; });
  EXPECT_NE(row, plan.rows.end()) << flags;
  return *row;
}

TEST(PlannerTest, WhatFitsComesFirstThenTheFastest) {
  const PlannedLayouts plan = Make(RoundMachine(1, 8), {.concurrency = 32});
  ASSERT_FALSE(plan.rows.empty());
  EXPECT_TRUE(plan.rows.front().fits());
  EXPECT_FALSE(plan.rows.back().fits());  // the whole model on one device of 100 GB
  for (std::size_t i = 1; i < plan.rows.size(); ++i) {
    const PlannedLayout& before = plan.rows[i - 1];
    const PlannedLayout& row = plan.rows[i];
    EXPECT_GE(before.fits(), row.fits());
    if (before.fits() == row.fits()) {
      EXPECT_GE(before.tokens_per_second, row.tokens_per_second);
    }
  }
  ASSERT_NE(plan.Recommended(), nullptr);
  EXPECT_FALSE(plan.Recommended()->layout.is_estimate());
  EXPECT_TRUE(plan.Recommended()->fits());
}

TEST(PlannerTest, SaysWhatDoesNotFit) {
  Hardware machine = RoundMachine(1, 1);
  PlannedLayouts plan = Make(machine, {});
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.rows[0].problem.substr(0, 28), "memory: 159.6 GB for weights");
  // (100 * 63 / 64 - dense - caches - activations) / 13.4 MB.
  EXPECT_THAT(plan.rows[0].problem,
              MatchesRegex(".*; a GPU with --experts cpu would have 6[0-9]{3} of 11264 experts"));
  const MemoryNeeds needs = FlashSizes().NeedsOfRank(plan.rows[0].layout, 0, 0);
  const auto embedding = static_cast<std::int64_t>(FlashSizes().costs().embedding_bytes());
  EXPECT_EQ(needs.dense + 11264 * needs.expert + embedding, plan.rows[0].weights);
  EXPECT_EQ(plan.rows[0].most_sequences, 0);
  EXPECT_EQ(plan.Recommended(), nullptr);

  machine.device.memory_bytes = 200e9;
  plan = Make(machine, {.concurrency = 10'000});
  EXPECT_GT(plan.rows[0].most_sequences, 0);
  EXPECT_EQ(plan.rows[0].problem,
            fmt::format("memory: caches for {} of 10000 sequences", plan.rows[0].most_sequences));
  // Reserved memory is not available.
  machine.device.reserved_bytes = 45e9;
  EXPECT_EQ(Make(machine, {}).rows[0].most_sequences, 0);
}

TEST(PlannerTest, CapacityIsTheMostThatThereIsMemoryFor) {
  const PlannedLayouts plan = Make(RoundMachine(1, 2), {.context = 65536, .concurrency = 2});
  const PlannedLayout& row = FindRow(plan, "--tp 2 --pp 1 --ep 2");
  ASSERT_TRUE(row.fits()) << row.problem;
  const double room = 100e9 - static_cast<double>(row.weights + row.workspace);
  const auto bytes = [&](std::int64_t n) {
    return static_cast<double>(
        FlashSizes().CacheBytes(FlashSizes().StageShard(row.layout, 0), n, 65536));
  };
  EXPECT_LE(bytes(row.most_sequences), room);
  EXPECT_GT(bytes(row.most_sequences + 1), room);
  EXPECT_EQ(row.caches, FlashSizes().CacheBytes(FlashSizes().StageShard(row.layout, 0), 2, 65536));
}

TEST(PlannerTest, ReplicasAddUp) {
  Hardware machine = RoundMachine(1, 1);
  machine.device.memory_bytes = 200e9;
  const PlannedLayout one = FindRow(Make(machine, {.concurrency = 4}), "--tp 1 --pp 1 --ep 1");
  machine.devices_per_node = 4;
  const PlannedLayout four = FindRow(Make(machine, {.concurrency = 16}), "--tp 1 --pp 1 --ep 1");
  EXPECT_EQ(four.layout.n_replicas, 4);
  EXPECT_EQ(four.most_sequences, 4 * one.most_sequences);
  EXPECT_DOUBLE_EQ(four.tokens_per_second, 4 * one.tokens_per_second);
  EXPECT_DOUBLE_EQ(four.token_seconds, one.token_seconds);
  EXPECT_DOUBLE_EQ(four.first_token_seconds, one.first_token_seconds);
}

// A pipeline of equal stages: parts of a batch overlap, and chunks of a prompt too. With and
// without balancing side by side, as two plans give them.
TEST(PlannerTest, SaysWhatBalancingBrings) {
  Hardware machine = RoundMachine(1, 8);
  machine.device.memory_bytes = 1e13;  // for all rows everywhere, also beside replicas
  const ExpertLoad load = ZipfLoad(FlashConfig(), 1);
  const auto plan = [&](std::optional<std::int64_t> n_redundant) {
    return PlanLayouts(FlashSizes(), machine, load,
                       {.concurrency = 2048, .experts = {.n_redundant = n_redundant}})
        .value();
  };
  const PlannedLayouts plain = plan(std::nullopt);
  const PlannedLayouts balanced = plan(64);
  for (const PlannedLayout& row : balanced.rows) {
    const PlannedLayout& before = FindRow(plain, Flags(row.layout));
    EXPECT_EQ(row.plain_tokens_per_second, before.tokens_per_second) << Flags(row.layout);
    EXPECT_EQ(before.plain_tokens_per_second, before.tokens_per_second);
    if (row.layout.n_expert() == 1) {
      EXPECT_EQ(row.plain_tokens_per_second, row.tokens_per_second);
    }
  }
  const PlannedLayout& row = FindRow(balanced, "--tp 8 --pp 1 --ep 8");
  EXPECT_GT(row.tokens_per_second, 1.1 * row.plain_tokens_per_second);
}

TEST(PlannerTest, PipelinesOverlap) {
  const Hardware machine = RoundMachine(1, 4);
  const std::string flags = "--tp 1 --pp 4 --ep 1";
  const PlannedLayout serial =
      FindRow(Make(machine, {.concurrency = 512, .micro_batches = 1}), flags);
  EXPECT_DOUBLE_EQ(serial.token_seconds, serial.token_time.Total());
  const PlannedLayout overlapped = FindRow(Make(machine, {.concurrency = 512}), flags);
  EXPECT_LT(overlapped.token_seconds, serial.token_seconds);
  EXPECT_DOUBLE_EQ(
      FindRow(Make(machine, {.concurrency = 512, .micro_batches = 4}), flags).token_seconds,
      overlapped.token_seconds);
  // One sequence has no parts.
  EXPECT_DOUBLE_EQ(FindRow(Make(machine, {.micro_batches = 4}), flags).token_seconds,
                   FindRow(Make(machine, {}), flags).token_seconds);
  const double one = FindRow(Make(machine, {.prompt = 512}), flags).first_token_seconds;
  const double four = FindRow(Make(machine, {.prompt = 2048}), flags).first_token_seconds;
  EXPECT_LT(four, 2.5 * one);  // 1 + 3 / 4 for equal stages
  EXPECT_GT(four, 1.5 * one);
}

TEST(PlannerTest, BetterHardwareIsNeverSlower) {
  const Hardware base = RoundMachine(2, 4);
  const Workload workloads[] = {
      {.concurrency = 1},
      {.context = 100'000, .concurrency = 64, .micro_batches = 2},
      {.concurrency = 64, .experts = {.exchange = ExpertPath::kFused, .n_redundant = 64}}};
  const std::function<void(Hardware&)> improvements[] = {
      [](Hardware& h) { h.device.bytes_per_second *= 1.5; },
      [](Hardware& h) { h.device.fp4_flops *= 1.5; },
      [](Hardware& h) { h.device.fp8_flops *= 1.5; },
      [](Hardware& h) { h.device.bf16_flops *= 1.5; },
      [](Hardware& h) { h.node.bytes_per_second *= 1.5; },
      [](Hardware& h) { h.node.latency /= 2; },
      [](Hardware& h) { h.network.bytes_per_second *= 1.5; },
      [](Hardware& h) { h.network.latency /= 2; }};
  for (const Workload& workload : workloads) {
    const PlannedLayouts before = Make(base, workload);
    for (const auto& improve : improvements) {
      Hardware better = base;
      improve(better);
      const PlannedLayouts after = Make(better, workload);
      for (const PlannedLayout& row : before.rows) {
        const auto same =
            std::find_if(after.rows.begin(), after.rows.end(), [&](const PlannedLayout& other) {
              return Flags(other.layout) == Flags(row.layout) &&
                     other.layout.n_replicas == row.layout.n_replicas;
            });
        ASSERT_NE(same, after.rows.end());
        EXPECT_LE(same->token_seconds, row.token_seconds) << Flags(row.layout);
        EXPECT_LE(same->first_token_seconds, row.first_token_seconds) << Flags(row.layout);
      }
    }
  }
}

TEST(PlannerTest, MoreWorkTakesLonger) {
  const Hardware machine = RoundMachine(1, 8);
  const std::string flags = "--tp 8 --pp 1 --ep 8";
  const PlannedLayout base = FindRow(Make(machine, {.concurrency = 8}), flags);
  EXPECT_GT(FindRow(Make(machine, {.concurrency = 16}), flags).token_seconds, base.token_seconds);
  EXPECT_GT(FindRow(Make(machine, {.context = 100'000, .concurrency = 8}), flags).token_seconds,
            base.token_seconds);
  EXPECT_GT(FindRow(Make(machine, {.prompt = 4096, .concurrency = 8}), flags).first_token_seconds,
            base.first_token_seconds);
}

TEST(PlannerTest, ReplicasThatDoNotDivideAreSaidByTheRow) {
  const PlannedLayouts plan = Make(RoundMachine(1, 8), {.experts = {.n_redundant = 3}});
  const PlannedLayout& row = FindRow(plan, "--tp 8 --pp 1 --ep 8");
  EXPECT_EQ(row.problem.substr(0, 19), "--redundant-experts");
  EXPECT_EQ(row.token_seconds, 0);
  // Nothing is replicated if nothing is shared.
  EXPECT_GT(FindRow(plan, "--tp 8 --pp 1 --ep 1").token_seconds, 0);
}

TEST(PlannerTest, RefusesMoreThanTheModelHas) {
  const auto error = [](const Workload& workload) {
    const Result<PlannedLayouts> plan =
        PlanLayouts(FlashSizes(), RoundMachine(1, 1), ZipfLoad(FlashConfig(), 0), workload);
    return plan ? "" : plan.error().message;
  };
  EXPECT_EQ(error({.context = 2'000'000}),
            "--context: expected at most 1048576 (positions of the model), found 2000000");
  EXPECT_EQ(error({.context = 100, .prompt = 101}),
            "--prompt: expected at most 100 (--context), found 101");
}

}  // namespace
}  // namespace fathom::measure::plan
