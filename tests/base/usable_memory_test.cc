#include "base/usable_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

// The files of a machine with 100 GiB available, in no group.
class UsableMemoryTest : public ::testing::Test {
 protected:
  UsableMemoryTest() {
    Write("proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable:   104857600 kB\n");
  }

  void Write(const std::filesystem::path& path, std::string_view text) {
    const std::filesystem::path whole = root_.path() / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void WriteBytes(const std::filesystem::path& path, std::int64_t gibibytes) {
    Write(path, std::to_string(gibibytes * kGibibyte) + "\n");
  }
  UsableMemory Find() const {
    const Result<UsableMemory> found = FindUsableMemory(root_.path());
    EXPECT_TRUE(found) << (found ? "" : found.error().message);
    return found.value_or(UsableMemory());
  }

  const testing::TemporaryDirectory root_;
};

TEST_F(UsableMemoryTest, IsWhatTheMachineHasWithoutGroups) {
  const UsableMemory memory = Find();
  EXPECT_EQ(memory.room, 100 * kGibibyte);
  EXPECT_EQ(memory.reserve, 5 * kGibibyte);
  EXPECT_EQ(memory.usable(), 95 * kGibibyte);
  EXPECT_EQ(memory.limited_by, "/proc/meminfo");
  EXPECT_THAT(memory.warnings, IsEmpty());
}

TEST_F(UsableMemoryTest, TheReserveIsOneGibibyteOfSmallRooms) {
  EXPECT_EQ(MemoryReserve(4 * kGibibyte), kGibibyte);
  EXPECT_EQ(MemoryReserve(40 * kGibibyte), 2 * kGibibyte);
  // But a small machine may use half.
  Write("proc/meminfo", "MemAvailable: 524288 kB\n");
  EXPECT_EQ(Find().usable(), kGibibyte / 4);
}

// Other programs run on a machine; a service is mostly alone in its group.
TEST_F(UsableMemoryTest, AGroupKeepsLessThanItsMachine) {
  Write("proc/self/cgroup", "0::/box\n");
  WriteBytes("sys/fs/cgroup/box/memory.current", 0);
  WriteBytes("sys/fs/cgroup/box/memory.max", 3);
  EXPECT_EQ(Find().reserve, kGibibyte / 4);
  EXPECT_EQ(Find().usable(), 3 * kGibibyte - kGibibyte / 4);
  EXPECT_EQ(Find().machine_reserve, 5 * kGibibyte);
  WriteBytes("sys/fs/cgroup/box/memory.max", 40);
  EXPECT_EQ(Find().reserve, 2 * kGibibyte);

  // The least that is left decides, not the least room.
  Write("proc/meminfo", "MemAvailable: 4194304 kB\n");
  Write("sys/fs/cgroup/box/memory.max", "3758096384\n");
  EXPECT_EQ(Find().limited_by, "/proc/meminfo");
  EXPECT_EQ(Find().usable(), 3 * kGibibyte);
  WriteBytes("sys/fs/cgroup/box/memory.max", 3);
  EXPECT_EQ(Find().limited_by, "/sys/fs/cgroup/box/memory.max");
  EXPECT_EQ(Find().machine_reserve, kGibibyte);
}

TEST_F(UsableMemoryTest, EveryAncestorLimits) {
  Write("proc/self/cgroup", "0::/user.slice/run.scope\n");
  WriteBytes("sys/fs/cgroup/user.slice/run.scope/memory.max", 60);
  Write("sys/fs/cgroup/user.slice/run.scope/memory.high", "max\n");
  WriteBytes("sys/fs/cgroup/user.slice/run.scope/memory.current", 10);
  EXPECT_EQ(Find().room, 50 * kGibibyte);
  EXPECT_EQ(Find().limited_by, "/sys/fs/cgroup/user.slice/run.scope/memory.max");

  WriteBytes("sys/fs/cgroup/user.slice/run.scope/memory.high", 40);
  EXPECT_EQ(Find().room, 30 * kGibibyte);

  Write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  WriteBytes("sys/fs/cgroup/user.slice/memory.high", 36);
  WriteBytes("sys/fs/cgroup/user.slice/memory.current", 20);
  EXPECT_EQ(Find().room, 16 * kGibibyte);
  EXPECT_EQ(Find().limited_by, "/sys/fs/cgroup/user.slice/memory.high");
  EXPECT_THAT(Find().warnings, IsEmpty());
}

TEST_F(UsableMemoryTest, PagesOfFilesCanBeDropped) {
  Write("proc/self/cgroup", "0::/box\n");
  WriteBytes("sys/fs/cgroup/box/memory.max", 20);
  WriteBytes("sys/fs/cgroup/box/memory.current", 20);
  Write("sys/fs/cgroup/box/memory.stat",
        "anon 4294967296\nfile 17179869184\ninactive_anon 0\ninactive_file 10737418240\n"
        "active_file 5368709120\n");
  EXPECT_EQ(Find().room, 15 * kGibibyte);
  // More than the group has in all is wrong, and not more than all.
  Write("sys/fs/cgroup/box/memory.stat",
        "inactive_file 9223372036854775807\nactive_file 9223372036854775807\n");
  EXPECT_EQ(Find().room, 20 * kGibibyte);
}

TEST_F(UsableMemoryTest, AContainerSeesItsOwnGroupAtTheTop) {
  for (const char* path : {"0::/\n", "0::/../../other\n", "0::/docker/0123abcd\n"}) {
    SCOPED_TRACE(path);
    Write("proc/self/cgroup", path);
    WriteBytes("sys/fs/cgroup/memory.max", 8);
    WriteBytes("sys/fs/cgroup/memory.current", 1);
    EXPECT_EQ(Find().room, 7 * kGibibyte);
  }
}

TEST_F(UsableMemoryTest, KnowsVersion1) {
  Write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/inner\n2:cpuacct:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  WriteBytes("sys/fs/cgroup/memory/memory.usage_in_bytes", 90);
  WriteBytes("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", 30);
  WriteBytes("sys/fs/cgroup/memory/box/inner/memory.usage_in_bytes", 12);
  Write("sys/fs/cgroup/memory/box/inner/memory.stat",
        "inactive_file 1\ntotal_inactive_file 2147483648\ntotal_active_file 0\n");
  EXPECT_EQ(Find().room, 20 * kGibibyte);
  EXPECT_EQ(Find().limited_by, "/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes");
}

TEST_F(UsableMemoryTest, AFullGroupHasNoRoom) {
  Write("proc/self/cgroup", "0::/box\n");
  WriteBytes("sys/fs/cgroup/box/memory.max", 8);
  WriteBytes("sys/fs/cgroup/box/memory.current", 9);
  EXPECT_EQ(Find().room, 0);
  EXPECT_EQ(Find().usable(), 0);
}

TEST_F(UsableMemoryTest, FilesThatAreNotNumbersAreLeftOutWithAWarning) {
  Write("proc/self/cgroup", "0::/box\n\nnonsense\n:\n::::\n");
  for (const char* text : {"", "-5\n", "12 GB\n", "99999999999999999999999\n", "\xff\xfe\n"}) {
    SCOPED_TRACE(text);
    Write("sys/fs/cgroup/box/memory.max", text);
    WriteBytes("sys/fs/cgroup/box/memory.current", 9);
    const UsableMemory memory = Find();
    EXPECT_EQ(memory.room, 100 * kGibibyte);
    if (*text != '\0') {
      EXPECT_THAT(memory.warnings,
                  ElementsAre(AllOf(HasSubstr("/sys/fs/cgroup/box/memory.max: expected a number "),
                                    HasSubstr("; left out"))));
    }
  }
  WriteBytes("sys/fs/cgroup/box/memory.max", 10);
  Write("sys/fs/cgroup/box/memory.current", "?\n");
  EXPECT_EQ(Find().room, 10 * kGibibyte);
  EXPECT_THAT(Find().warnings, ::testing::Contains(HasSubstr("memory.current: expected a number")));
}

TEST_F(UsableMemoryTest, AGroupAloneIsEnough) {
  Write("proc/meminfo", "MemAvailable:\n");
  EXPECT_FALSE(FindUsableMemory(root_.path()));
  EXPECT_THAT(FindUsableMemory(root_.path()).error().message, HasSubstr("/proc/meminfo"));
  Write("proc/self/cgroup", "0::/box\n");
  WriteBytes("sys/fs/cgroup/box/memory.max", 10);
  WriteBytes("sys/fs/cgroup/box/memory.current", 4);
  EXPECT_EQ(Find().room, 6 * kGibibyte);
  EXPECT_EQ(Find().machine_reserve, 0);
  EXPECT_THAT(Find().warnings, ElementsAre(HasSubstr("expected MemAvailable")));
}

TEST(UsableMemory, OfThisMachine) {
  const Result<UsableMemory> memory = FindUsableMemory();
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_GT(memory->room, 0);
  EXPECT_THAT(memory->warnings, IsEmpty());
}

}  // namespace
}  // namespace fathom
