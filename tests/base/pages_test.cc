#include "base/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/page_preparer.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/locks.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::size_t NumPages(std::span<const std::byte> bytes) {
  return bytes.size() / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// `bytes` are whole pages.
std::size_t PagesInMemory(std::span<std::byte> bytes) {
  std::vector<unsigned char> residency(NumPages(bytes));
  EXPECT_EQ(::mincore(bytes.data(), bytes.size(), residency.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(residency, [](unsigned char bits) { return (bits & 1) != 0; }));
}

TEST(PageMemory, LargeMemoryIsZeroedAndAlignedToHugePages) {
  for (const std::int64_t bytes : {kHugePageBytes, kHugePageBytes + 1, 5 * kHugePageBytes - 7}) {
    Result<PageMemory> memory = PageMemory::Allocate(bytes);
    ASSERT_TRUE(memory);
    ASSERT_EQ(std::ssize(memory->bytes()), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) %
                  static_cast<std::uintptr_t>(kHugePageBytes),
              0u);
    EXPECT_EQ(memory->bytes().back(), std::byte{0});
    memory->bytes().back() = std::byte{1};
    memory->bytes().front() = std::byte{2};
    const PageMemory moved = std::move(*memory);
    EXPECT_EQ(moved.bytes().back(), std::byte{1});
    EXPECT_EQ(moved.bytes().front(), std::byte{2});
  }
}

TEST(PageMemory, SmallAndEmpty) {
  Result<PageMemory> small = PageMemory::Allocate(1);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->bytes()[0], std::byte{0});
  Result<PageMemory> empty = PageMemory::Allocate(0);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
}

TEST(PageMemory, TooMuchIsAnError) {
  for (const std::int64_t bytes :
       {std::int64_t{1} << 60, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(PageMemory::Allocate(bytes).error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(PageMemory::AllocateReserved(std::int64_t{1} << 50).error().code,
              ErrorCode::kOutOfMemory);
  }
}

TEST(Pages, HugePagesAreCounted) {
  Result<PageMemory> memory = PageMemory::Allocate(8 * kHugePageBytes);
  ASSERT_TRUE(memory);
  EXPECT_EQ(BytesInHugePages(memory->bytes()), 0) << "nothing was touched";
  std::memset(memory->bytes().data(), 1, memory->bytes().size());
  const std::int64_t huge = BytesInHugePages(memory->bytes());
  std::string setting;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), setting);
  if (setting.empty() || setting.find("[never]") != std::string::npos) {
    EXPECT_EQ(huge, 0);
  } else {
    EXPECT_GE(huge, kHugePageBytes);
    EXPECT_EQ(huge % kHugePageBytes, 0);
  }
}

TEST(Pages, PopulatedPagesKeepTheirBytes) {
  const Result<PageMemory> memory = PageMemory::Allocate(3 * kHugePageBytes);
  ASSERT_TRUE(memory);
  const std::span<std::byte> bytes = memory->bytes();
  bytes[5000] = std::byte{7};
  if (!PopulatePages(bytes)) GTEST_SKIP() << "Linux before 5.14";
  EXPECT_EQ(PagesInMemory(bytes), NumPages(bytes));
  EXPECT_EQ(bytes[5000], std::byte{7});
}

TEST(PagePreparer, PreparesAllPagesUntilItIsStopped) {
  const Result<PageMemory> memory = PageMemory::Allocate(3 * kHugePageBytes);
  ASSERT_TRUE(memory);
  const std::span<std::byte> bytes = memory->bytes();
  if (!PopulatePages(bytes.first(1))) GTEST_SKIP() << "Linux before 5.14";
  PagePreparer preparer(bytes);
  while (PagesInMemory(bytes) < NumPages(bytes)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  preparer.Stop();
  ReleasePages(bytes);
  EXPECT_EQ(PagesInMemory(bytes), 0u);
}

TEST(Pages, TouchedPagesOfAFileAreMapped) {
  const testing::TemporaryDirectory directory;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  testing::WriteFile(directory.path() / "file", std::string(20 * page + 1, 'x'));
  const Result<MappedFile> file = MappedFile::Open(directory.path() / "file");
  ASSERT_TRUE(file);
  AdviseReadAhead(file->bytes().subspan(3, 17 * page));  // any alignment
  AdviseReadAhead({});
  TouchPages(file->bytes().subspan(3));
  std::vector<unsigned char> resident(21);
  ASSERT_EQ(::mincore(const_cast<std::byte*>(file->bytes().data()), file->bytes().size(),
                      resident.data()),
            0);
  EXPECT_THAT(resident, ::testing::Each(1));
}

// In a process of its own, which gives up the right to lock without limit.
TEST(PagesDeathTest, LockingTooMuchNamesTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lock = [] {
    if (!testing::LimitLocks(65536)) {
      std::_Exit(2);
    }
    Result<PageMemory> memory = PageMemory::Allocate(1'000'000);
    const Status small = LockPages(memory->bytes().first(8192), 8192, "a little");
    const Status large = LockPages(memory->bytes(), 1'000'000, "the weights");
    std::fputs(large ? "locked" : large.error().message.c_str(), stderr);
    // Without its rights LeakSanitizer cannot look at the process, and says so with status 1.
    std::_Exit(small && !large ? 0 : 1);
  };
  EXPECT_EXIT(lock(), ::testing::ExitedWithCode(0),
              "cannot lock the weights in memory .*: expected a limit of at least 1000000 bytes "
              ".RLIMIT_MEMLOCK, ulimit -l., found 65536 bytes");
}

TEST(Pages, AvailableMemory) {
  EXPECT_GT(AvailableMemory().value_or(0), 0);
  const testing::TemporaryDirectory root;
  EXPECT_EQ(AvailableMemory(root.path()), std::nullopt);
  std::filesystem::create_directory(root.path() / "proc");
  testing::WriteFile(root.path() / "proc/meminfo",
                     "MemTotal:       24684084 kB\nMemAvailable:   23220996 kB\n");
  EXPECT_EQ(AvailableMemory(root.path()), 23220996 * std::int64_t{1024});
  EXPECT_EQ(SwapBytes(root.path()), 0);
  testing::WriteFile(root.path() / "proc/meminfo", "MemAvailable: 1 kB\nSwapTotal:  12 kB\n");
  EXPECT_EQ(SwapBytes(root.path()), 12 * 1024);
  testing::WriteFile(root.path() / "proc/meminfo", "MemAvailable:\n");
  EXPECT_EQ(AvailableMemory(root.path()), std::nullopt);
}

}  // namespace
}  // namespace fathom
