#include "model/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/integer_math.h"

namespace fathom::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMegabyte = 1'000'000;

// 100 MB without experts, and 25 experts of 10 MB.
MemoryNeeds Needs() {
  return {.dense = 60 * kMegabyte,
          .draft = 10 * kMegabyte,
          .activations = 10 * kMegabyte,
          .caches = 19 * kMegabyte,
          .staging = kMegabyte,
          .expert = 10 * kMegabyte,
          .experts = {8, 8, 0, 8, 1}};
}

// So many bytes that this many are left beside those that are kept.
std::int64_t FreeWith(std::int64_t bytes) { return DivideUp(bytes * 64, 63); }

TEST(MemoryPlanTest, GivesEachBlockTheSameNumberOfExperts) {
  const auto places = [](std::int64_t room) {
    const Result<MemoryPlan> plan =
        PlanMemory(Needs(), FreeWith((100 + room) * kMegabyte), HostExpertChoice::kAuto);
    return plan ? plan->places.on_device : std::vector<std::int64_t>();
  };
  EXPECT_THAT(places(0), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(places(9), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(places(10), ElementsAre(1, 0, 0, 0, 0));
  EXPECT_THAT(places(40), ElementsAre(1, 1, 0, 1, 1));
  EXPECT_THAT(places(69), ElementsAre(2, 2, 0, 1, 1));
  EXPECT_THAT(places(1000), ElementsAre(8, 8, 0, 8, 1));
}

// Experts that a device reads where the host has them need no memory of it.
TEST(MemoryPlanTest, ExpertsInPlaceAreAllThere) {
  MemoryNeeds needs = Needs();
  needs.dense = needs.draft = needs.expert = 0;
  const Result<MemoryPlan> plan =
      PlanMemory(needs, FreeWith(30 * kMegabyte), HostExpertChoice::kCpu);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->places.on_device, ElementsAre(8, 8, 0, 8, 1));
  EXPECT_FALSE(plan->places.host_computes);
  EXPECT_THAT(Describe(*plan), HasSubstr("; the GPU reads all weights in memory of the host"));
}

TEST(MemoryPlanTest, ChoosesWhatComputesTheOthers) {
  const auto computes = [](std::int64_t n_on_device, HostExpertChoice choice) {
    return PlanMemory(Needs(), FreeWith((100 + 10 * n_on_device) * kMegabyte), choice)
        ->places.host_computes;
  };
  EXPECT_FALSE(computes(0, HostExpertChoice::kGpu));
  EXPECT_TRUE(computes(24, HostExpertChoice::kCpu));
  EXPECT_FALSE(computes(25, HostExpertChoice::kCpu));  // there are no others
  EXPECT_TRUE(computes(21, HostExpertChoice::kAuto));
  EXPECT_FALSE(computes(22, HostExpertChoice::kAuto));  // 3 of 25 are 12 %
}

TEST(MemoryPlanTest, SaysWhatIsMissing) {
  const std::int64_t least = FreeWith(100 * kMegabyte);
  EXPECT_TRUE(PlanMemory(Needs(), least, HostExpertChoice::kAuto));
  const Result<MemoryPlan> plan = PlanMemory(Needs(), least - 1, HostExpertChoice::kAuto);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(plan.error().message,
            "memory of the device: expected at least 0.102 GB (0.060 GB dense weights, 0.010 GB "
            "draft head, 0.019 GB caches, 0.010 GB activations, 0.001 GB staging, 0.002 GB "
            "driver), found 0.102 GB free; smaller values of --kv-memory, --context, "
            "--max-sequences or --max-batch-tokens need less");
}

TEST(MemoryPlanTest, IsDescribedInOneLine) {
  const auto line = [](std::int64_t n_on_device, HostExpertChoice choice) {
    return Describe(*PlanMemory(Needs(), FreeWith((100 + 10 * n_on_device) * kMegabyte), choice));
  };
  EXPECT_EQ(line(22, HostExpertChoice::kAuto),
            "0.325 GB free on the device: 0.060 GB dense weights, 0.010 GB draft head, 0.019 GB "
            "caches, 0.010 GB activations, 0.001 GB staging, 0.005 GB driver; 22 of 25 experts "
            "there (1 to 7 of each layer), the GPU reads the other 3 over the bus (0.030 GB)");
  EXPECT_THAT(line(3, HostExpertChoice::kCpu),
              HasSubstr("3 of 25 experts there (0 to 1 of each layer), the CPU computes the other "
                        "22 (0.220 GB)"));
  EXPECT_THAT(line(25, HostExpertChoice::kCpu), HasSubstr("; all 25 experts there"));
}

}  // namespace
}  // namespace fathom::model
