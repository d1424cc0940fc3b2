#include "base/memory_pressure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

constexpr std::int64_t kReserved = std::int64_t{1} << 30;

class MemoryPressureTest : public ::testing::Test {
 protected:
  MemoryPressureTest() { Write("proc/meminfo", "MemAvailable: 4194304 kB\n"); }

  void Write(const std::filesystem::path& path, std::string_view text) {
    const std::filesystem::path whole = root_.path() / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  static std::string Psi(std::int64_t microseconds) {
    return "some avg10=99.00 avg60=0.00 avg300=0.00 total=" + std::to_string(microseconds) +
           "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
  }
  PressureReading Read(MemoryPressure& pressure, int second) {
    return pressure.Read(MemoryPressure::Clock::time_point(std::chrono::seconds(second)));
  }
  MemoryPressure Make(std::int64_t reserve = kReserved) {
    return MemoryPressure(reserve, root_.path());
  }

  const testing::TemporaryDirectory root_;
};

TEST_F(MemoryPressureTest, NothingToReadIsNoPressure) {
  std::filesystem::remove(root_.path() / "proc/meminfo");
  MemoryPressure pressure = Make();
  for (const int t : {0, 2, 4}) {
    const PressureReading reading = Read(pressure, t);
    EXPECT_FALSE(reading.is_short());
    EXPECT_EQ(reading.swapped, 0);
  }
}

TEST_F(MemoryPressureTest, TheShareIsOfTheTimeSinceTheLastReading) {
  Write("proc/pressure/memory", Psi(5'000'000));
  MemoryPressure pressure = Make();
  EXPECT_EQ(Read(pressure, 0).stalled, 0);
  Write("proc/pressure/memory", Psi(5'100'000));
  EXPECT_DOUBLE_EQ(Read(pressure, 2).stalled, .05);
  Write("proc/pressure/memory", Psi(5'700'000));
  const PressureReading reading = Read(pressure, 4);
  EXPECT_DOUBLE_EQ(reading.stalled, .3);
  EXPECT_TRUE(reading.is_short());
  EXPECT_FALSE(Read(pressure, 6).is_short());
  Write("proc/pressure/memory", Psi(9));  // counts backwards
  EXPECT_FALSE(Read(pressure, 8).is_short());
}

// A pool that is filled waits for pages of files that the system drops.
TEST_F(MemoryPressureTest, StallsAndLimitsWhileMemoryIsTakenAreNoPressure) {
  bool takes = true;
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/memory.events", "max 1\n");
  MemoryPressure pressure(kReserved, root_.path(), [&] { return takes; });
  Write("proc/pressure/memory", Psi(0));
  EXPECT_FALSE(Read(pressure, 0).is_short());
  Write("proc/pressure/memory", Psi(1'000'000));
  Write("sys/fs/cgroup/a/memory.events", "max 9\n");
  EXPECT_FALSE(Read(pressure, 2).is_short());
  takes = false;
  Write("proc/pressure/memory", Psi(2'000'000));
  EXPECT_FALSE(Read(pressure, 4).is_short()) << "it took memory until a moment ago";
  Write("proc/pressure/memory", Psi(3'000'000));
  EXPECT_DOUBLE_EQ(Read(pressure, 6).stalled, .5);
  takes = true;
  Write("proc/meminfo", "MemAvailable: 1024 kB\n");
  EXPECT_TRUE(Read(pressure, 8).is_short());
}

TEST_F(MemoryPressureTest, TheOwnGroupCountsNotTheMachine) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("proc/pressure/memory", Psi(0));
  Write("sys/fs/cgroup/a/memory.pressure", Psi(0));
  Write("sys/fs/cgroup/a/b/memory.pressure", Psi(0));
  MemoryPressure pressure = Make();
  EXPECT_FALSE(Read(pressure, 0).is_short());
  Write("proc/pressure/memory", Psi(2'000'000));
  Write("sys/fs/cgroup/a/memory.pressure", Psi(2'000'000));
  EXPECT_FALSE(Read(pressure, 2).is_short());
  Write("sys/fs/cgroup/a/b/memory.pressure", Psi(1'000'000));
  EXPECT_DOUBLE_EQ(Read(pressure, 4).stalled, .5);
}

TEST_F(MemoryPressureTest, ALimitOfAnyGroupThatIsHitCountsOnce) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/memory.events", "low 3\nhigh 10\nmax 2\noom 0\n");
  Write("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 0\n");
  MemoryPressure pressure = Make();
  EXPECT_FALSE(Read(pressure, 0).hit_limit);
  Write("sys/fs/cgroup/a/memory.events", "low 9\nhigh 10\nmax 2\noom 0\n");
  EXPECT_FALSE(Read(pressure, 2).hit_limit);
  Write("sys/fs/cgroup/a/memory.events", "low 9\nhigh 11\nmax 2\noom 0\n");
  EXPECT_TRUE(Read(pressure, 4).hit_limit);
  EXPECT_FALSE(Read(pressure, 6).hit_limit);
  Write("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 1\n");
  EXPECT_TRUE(Read(pressure, 8).hit_limit);
}

TEST_F(MemoryPressureTest, ALimitOfAGroupOfVersion1ThatIsHitCountsOnce) {
  Write("proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  Write("sys/fs/cgroup/memory/a/memory.failcnt", "7\n");
  Write("sys/fs/cgroup/memory/a/b/memory.failcnt", "0\n");
  MemoryPressure pressure = Make();
  EXPECT_FALSE(Read(pressure, 0).hit_limit);
  EXPECT_FALSE(Read(pressure, 2).hit_limit);
  Write("sys/fs/cgroup/memory/a/memory.failcnt", "8\n");
  EXPECT_TRUE(Read(pressure, 4).hit_limit);
  EXPECT_FALSE(Read(pressure, 6).hit_limit);
  Write("sys/fs/cgroup/memory/a/b/memory.failcnt", "1\n");
  EXPECT_TRUE(Read(pressure, 8).is_short());
  Write("sys/fs/cgroup/memory/a/b/memory.failcnt", "many\n");
  EXPECT_FALSE(Read(pressure, 10).hit_limit);
}

TEST_F(MemoryPressureTest, KnowsTheReserveAndWhatIsSwapped) {
  MemoryPressure pressure = Make(4 * kReserved);
  EXPECT_FALSE(Read(pressure, 0).below_reserve);
  Write("proc/meminfo", "MemAvailable: 4194303 kB\n");
  Write("proc/self/status", "Name:\tfathom\nVmSwap:\t     512 kB\n");
  const PressureReading reading = Read(pressure, 2);
  EXPECT_TRUE(reading.below_reserve);
  EXPECT_EQ(reading.swapped, 512 * 1024);
}

TEST_F(MemoryPressureTest, NonsenseIsNoPressure) {
  Write("proc/self/cgroup", "0::/a\n");
  for (const char* text : {"", "some\n", "some total=\n", "some total=99999999999999999999\n",
                           "some total=-5\n", "\xff\n"}) {
    Write("sys/fs/cgroup/a/memory.pressure", text);
    Write("sys/fs/cgroup/a/memory.events", "high\nmax 99999999999999999999\nhigh -1\n");
    Write("proc/self/status", "VmSwap:\tmuch\n");
    MemoryPressure pressure = Make();
    EXPECT_FALSE(Read(pressure, 0).is_short()) << text;
    EXPECT_FALSE(Read(pressure, 2).is_short()) << text;
  }
}

}  // namespace
}  // namespace fathom
