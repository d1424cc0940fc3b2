#include "base/processors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

// A system of its own: files below a temporary root.
class FakeRoot {
 public:
  FakeRoot& With(const std::string& file, const std::string& text) {
    const std::filesystem::path path = directory_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
    return *this;
  }
  FakeRoot& WithSiblings(int processor, const std::string& list) {
    return With(
        "sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list",
        list);
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  testing::TemporaryDirectory directory_;
};

TEST(Processors, HyperThreadsCountOnce) {
  FakeRoot root;
  for (int i = 0; i < 4; ++i) {
    const std::string list = std::to_string(i) + "," + std::to_string(i + 4);
    root.WithSiblings(i, list).WithSiblings(i + 4, list);
  }
  using Numbers = std::vector<int>;
  EXPECT_EQ(OnePerCore(Numbers{0, 1, 2, 3, 4, 5, 6, 7}, root.path()), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(OnePerCore(Numbers{3, 4, 6, 7}, root.path()), (Numbers{3, 4, 6}))
      << "a core counts if any of its threads is allowed";
  EXPECT_EQ(OnePerCore(Numbers{0, 9, 10}, root.path()), (Numbers{0, 9, 10}))
      << "what is not described is a core";
}

TEST(Processors, CachesOfSeveralProcessorsCountOnce) {
  FakeRoot root;
  const auto with_cache = [&root](int processor, const char* list, const char* size) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(processor);
    root.With(folder + "/cache/index3/shared_cpu_list", list)
        .With(folder + "/cache/index3/size", size);
  };
  with_cache(0, "0-1", "32768K");
  with_cache(1, "0-1", "32768K");
  with_cache(2, "2-3", "16M");
  with_cache(3, "2-3", "16M");
  using Numbers = std::vector<int>;
  EXPECT_EQ(CacheBytes(Numbers{0, 1}, root.path()), 32 << 20);
  EXPECT_EQ(CacheBytes(Numbers{1, 2, 3}, root.path()), 48 << 20);
  EXPECT_EQ(CacheBytes(Numbers{0, 7}, root.path()), 0) << "what is not described is not known";
  with_cache(4, "4", "much");
  EXPECT_EQ(CacheBytes(Numbers{0, 4}, root.path()), 0);
  with_cache(4, "4", "99999999999G");
  EXPECT_EQ(CacheBytes(Numbers{4}, root.path()), 0);
}

TEST(Processors, NoControlGroupIsNoLimit) {
  EXPECT_TRUE(std::isinf(ProcessorQuota(FakeRoot().path())));
  EXPECT_TRUE(std::isinf(ProcessorQuota(FakeRoot()
                                            .With("proc/self/cgroup", "0::/a")
                                            .With("sys/fs/cgroup/a/cpu.max", "max 100000")
                                            .path())));
}

TEST(Processors, TheSmallestQuotaOnTheWayUpRules) {
  FakeRoot root;
  root.With("proc/self/cgroup", "0::/system/service")
      .With("sys/fs/cgroup/system/service/cpu.max", "350000 100000")
      .With("sys/fs/cgroup/other/cpu.max", "10000 100000");
  EXPECT_DOUBLE_EQ(ProcessorQuota(root.path()), 3.5);
  root.With("sys/fs/cgroup/system/cpu.max", "100000 50000");
  EXPECT_DOUBLE_EQ(ProcessorQuota(root.path()), 2.0);
  root.With("sys/fs/cgroup/cpu.max", "150000 100000");  // a container's own root
  EXPECT_DOUBLE_EQ(ProcessorQuota(root.path()), 1.5);
}

TEST(Processors, VersionOneQuota) {
  FakeRoot root;
  root.With("proc/self/cgroup", "9:memory:/m\n4:cpu,cpuacct:/docker/x\n1:cpuset:/c\n0::/")
      .With("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1")
      .With("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000")
      .With("sys/fs/cgroup/cpuset/c/cpu.cfs_quota_us", "1000")
      .With("sys/fs/cgroup/cpuset/c/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(ProcessorQuota(root.path())));
  root.With("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "250000")
      .With("sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(ProcessorQuota(root.path()), 2.5);
}

TEST(Processors, NonsenseIsNoLimit) {
  FakeRoot root;
  root.With("proc/self/cgroup", "what\n0::/a\n:")
      .With("sys/fs/cgroup/a/cpu.max", "fast")
      .With("sys/fs/cgroup/cpu.max", "0 0");
  EXPECT_TRUE(std::isinf(ProcessorQuota(root.path())));
}

TEST(Processors, ThisMachine) {
  const std::vector<int> allowed = AllowedProcessors();
  ASSERT_FALSE(allowed.empty());
  EXPECT_TRUE(std::is_sorted(allowed.begin(), allowed.end()));
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_LE(AvailableCores(), static_cast<int>(allowed.size()));
}

TEST(Processors, BindingChangesTheMaskOfOneThread) {
  const std::vector<int> before = AllowedProcessors();
  std::vector<int> bound;
  bool refused = true;
  std::thread([&] {
    EXPECT_TRUE(BindThisThread(before.back()));
    bound = AllowedProcessors();
    refused = !BindThisThread(60'000) && !BindThisThread(-1) && !BindThisThread(1 << 20);
  }).join();
  EXPECT_EQ(bound, std::vector<int>{before.back()});
  EXPECT_TRUE(refused);
  EXPECT_EQ(AllowedProcessors(), before);
}

}  // namespace
}  // namespace fathom
