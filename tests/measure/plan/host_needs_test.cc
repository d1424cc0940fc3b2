// The memory plan of a host against the table of docs/spec/streaming.md 1.3, and against
// checkpoints.
#include "planning/host_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>

#include "base/usable_memory.h"
#include "measure/plan/plan_report.h"
#include "measure/slice/shapes.h"
#include "planning/host_shares.h"
#include "planning/load_plan.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::measure::plan {
namespace {

// The needs by the configuration alone.
HostNeeds FindNeeds(const ModelSizes& sizes, const ServingOptions& serving, std::int64_t n_context,
                    std::int64_t budget) {
  const DrafterKind* const drafter = sizes.drafter();
  NeedsFinder finder(sizes.config(), drafter, sizes.HostWeights(), 1, budget);
  const std::int64_t most_drafts = drafter == nullptr ? 0 : drafter->depth(sizes.config());
  return finder.Find(0, MakeLoadPlan(serving, n_context, most_drafts)).value();
}

// A row of the table: memory in GiB, GB of dense weights resident and streamed, slots, hit rate, GB
// read per token, tokens/s with disks of 0.5, 3, 6 and 12 GB/s.
struct TableRow {
  const char* name;
  bool pro;
  int gibibytes;
  double resident, streamed;
  std::int64_t slots;
  double hits, read;
  double rates[4];

  friend void PrintTo(const TableRow& row, std::ostream* out) { *out << row.name; }
};

class StreamingTable : public ::testing::TestWithParam<TableRow> {};

// Half of the last digit of a printed number, beside 4 % of it.
double Tolerance(double printed) {
  const double digit = printed >= 10 ? 1 : printed >= 1 ? .1 : .01;
  return digit / 2 + .04 * printed;
}

// Assumes what the table does: memory of which the system has 1.5 GB, one sequence of 32K without a
// prefix cache, chunks whose tokens each hold four streams, an input and an fp32 sum.
TEST_P(StreamingTable, IsReproduced) {
  const TableRow& row = GetParam();
  const ModelSizes sizes(row.pro ? "pro" : "flash", row.pro ? ProConfig() : FlashConfig());
  const auto room =
      static_cast<std::int64_t>(row.gibibytes) * (std::int64_t{1} << 30) - 1'500'000'000;
  const std::int64_t budget = room - MemoryReserve(room);
  HostNeeds needs =
      FindNeeds(sizes, {.max_batch_tokens = 1, .prefix_cache = false}, 32'768, budget);
  const std::int64_t chunk_token = sizes.config().hidden_size * (4 * 2 + 2 + 4);
  needs.activations += (8192 * chunk_token > budget / 20 ? 4096 : 8192) * chunk_token;
  const HostPlan plan = PlanHostMemory(needs, budget).value();
  EXPECT_FALSE(plan.fits);
  EXPECT_NEAR(Number(plan.resident) / kGiga, row.resident, Tolerance(row.resident));
  EXPECT_NEAR(Number(plan.streamed) / kGiga, row.streamed, Tolerance(row.streamed));
  // A rounding of the table's other columns is 0.25 GB: 7 slots of Pro, 94 here for 88 of the row
  // with 32 GiB, and .102 for its hit rate of .09.
  const double slots = std::max(.04 * Number(row.slots), .25 * kGiga / Number(needs.slot));
  EXPECT_NEAR(Number(plan.n_slots), Number(row.slots), slots);
  EXPECT_NEAR(plan.hit_rate, row.hits, .012);
  EXPECT_NEAR(plan.ReadPerToken() / kGiga, row.read, Tolerance(row.read));
  for (int i = 0; i < 4; ++i) {
    const double rate = 1 / plan.SecondsPerToken({.disk = kComparedDisks[i] * kGiga});
    EXPECT_NEAR(rate, row.rates[i], Tolerance(row.rates[i])) << kComparedDisks[i] << " GB/s";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Published, StreamingTable,
    ::testing::Values(TableRow{"Flash8", false, 8, 5.3, 2.4, 24, 0, 5.9, {.08, .46, .85, 1.5}},
                      TableRow{"Flash16", false, 16, 7.8, 0, 460, .40, 2.1, {.23, 1.1, 1.9, 2.5}},
                      TableRow{"Flash32", false, 32, 7.8, 0, 1694, .62, 1.3, {.36, 1.6, 2.3, 2.8}},
                      TableRow{"Flash64", false, 64, 7.8, 0, 4140, .81, .67, {.65, 2.3, 2.8, 3.1}},
                      TableRow{
                          "Flash128", false, 128, 7.8, 0, 9017, .97, .10, {2.4, 3.3, 3.4, 3.5}},
                      TableRow{"Pro32", true, 32, 26.8, 0, 88, .09, 11.6, {.04, .22, .38, .60}},
                      TableRow{"Pro64", true, 64, 26.8, 0, 1020, .41, 7.6, {.06, .31, .51, .70}},
                      TableRow{"Pro128", true, 128, 26.8, 0, 2877, .58, 5.4, {.09, .40, .62, .77}}),
    [](const auto& row) { return std::string(row.param.name); });

// "Pro on 8 / 16: 35 / 26 GB/token, .08 / .11 tok/s at 3 GB/s".
TEST(HostNeedsTest, ProOnSmallMachinesIsPossibleButSlow) {
  const ModelSizes sizes("pro", ProConfig());
  for (const auto& [gibibytes, read, rate] :
       {std::tuple(8, 35.0, .08), std::tuple(16, 26.0, .11)}) {
    const std::int64_t room = gibibytes * (std::int64_t{1} << 30) - 1'500'000'000;
    const std::int64_t budget = room - MemoryReserve(room);
    const HostNeeds needs =
        FindNeeds(sizes, {.max_batch_tokens = 1, .prefix_cache = false}, 32'768, budget);
    const HostPlan plan = PlanHostMemory(needs, budget).value();
    EXPECT_NEAR(plan.ReadPerToken() / kGiga, read, Tolerance(read));
    EXPECT_NEAR(1 / plan.SecondsPerToken({}), rate, Tolerance(rate));
  }
}

// Full size, of zeros that take no disk.
TEST(HostNeedsTest, OfFilesAndOfTheConfigurationAgree) {
  for (const bool pro : {false, true}) {
    const testing::TemporaryDirectory directory;
    testing::WriteSparseCheckpoint(directory.path(), ConfigJson(pro ? ProConfig() : FlashConfig()),
                                   {});
    const ModelSizes sizes = ModelSizes::Read(directory.path()).value();
    const Checkpoint checkpoint = Checkpoint::Open(directory.path()).value();
    for (const int gibibytes : {32, 2000}) {
      const std::int64_t budget = gibibytes * (std::int64_t{1} << 30);
      const LoadPlan load =
          MakeLoadPlan({.max_batch_tokens = 512}, 8192, MostDrafts({}, checkpoint, sizes.config()));
      const HostNeeds files =
          PlanHost(sizes.config(), checkpoint, load, 1, budget).value().front().needs;
      const HostNeeds alone = FindNeeds(sizes, {.max_batch_tokens = 512}, 8192, budget);
      EXPECT_EQ(files.activations, alone.activations);
      EXPECT_EQ(files.caches, alone.caches);
      EXPECT_EQ(files.dense, alone.dense);
      EXPECT_EQ(files.head, alone.head);
      EXPECT_EQ(files.draft, alone.draft);
      EXPECT_EQ(files.expert, alone.expert);
      // Ranges that begin with a block need one less.
      EXPECT_LE(files.slot, alone.slot);
      EXPECT_GE(files.slot, alone.slot - 2 * 4096);
      EXPECT_EQ(files.n_experts, alone.n_experts);
      EXPECT_EQ(files.n_draft_experts, alone.n_draft_experts);
      EXPECT_EQ(files.WantedSlots(), alone.WantedSlots());
    }
  }
}

// A step reads each expert once: it has as many tokens as have activations for 5 % of the memory
// (8192) or 10 %, if the options leave that open.
TEST(HostNeedsTest, StepsGrowWhereExpertsAreStreamed) {
  const testing::TemporaryDirectory directory;
  testing::WriteSparseCheckpoint(directory.path(), ConfigJson(FlashConfig()), {});
  const ModelSizes sizes = ModelSizes::Read(directory.path()).value();
  const Checkpoint checkpoint = Checkpoint::Open(directory.path()).value();
  const auto step_tokens = [&](std::int64_t gibibytes, std::optional<std::int64_t> wanted) {
    const std::int64_t budget = gibibytes << 30;
    LoadPlan load = MakeLoadPlan({.max_batch_tokens = wanted, .draft_depth = 0}, 16'384, 0);
    NeedsFinder finder(sizes.config(), checkpoint, {{.shard = WholeModel(sizes.config())}}, 1,
                       budget);
    const HostPlan plan = PlanStepsOfShares(finder, load).value().front();
    EXPECT_EQ(plan.needs.step_tokens, load.sizes.max_batch_tokens);
    if (load.sizes.max_batch_tokens > 512) {
      EXPECT_LE(plan.needs.activations, budget / (plan.needs.step_tokens == 8192 ? 20 : 10));
    }
    return load.sizes.max_batch_tokens;
  };
  EXPECT_EQ(step_tokens(3, std::nullopt), 512);
  EXPECT_GT(step_tokens(12, std::nullopt), 512);
  EXPECT_EQ(step_tokens(32, std::nullopt), 4096);
  EXPECT_EQ(step_tokens(100, std::nullopt), 8192);
  EXPECT_EQ(step_tokens(32, 512), 512);
  EXPECT_EQ(step_tokens(2000, std::nullopt), 512);  // all experts fit
}

}  // namespace
}  // namespace fathom::measure::plan
