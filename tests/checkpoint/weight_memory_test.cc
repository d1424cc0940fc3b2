#include "checkpoint/weight_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/locks.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

struct Held {
  Result<PageMemory> memory;
  std::vector<double> progress;
  std::vector<std::string> warnings;
};

Held Hold(MemoryPieces& pieces, const WeightMemory& memory, int n_threads = 2) {
  std::vector<double> progress;
  std::vector<std::string> warnings;
  ThreadTeam team(n_threads);
  Result<PageMemory> held = HoldWeights(
      pieces, memory, team, [&](double share) { progress.push_back(share); }, warnings);
  return {std::move(held), std::move(progress), std::move(warnings)};
}

Checkpoint OpenFairy() {
  Result<Checkpoint> checkpoint = Checkpoint::Open(testing::ProjectPath("models/fairy"));
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? *std::move(checkpoint) : Checkpoint();
}

MemoryPieces ListTensors(const Checkpoint& checkpoint) {
  MemoryPieces pieces;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    pieces.push_back(tensor.view.bytes);
  }
  return pieces;
}

// Returns how many pages of `bytes` this process has mapped.
std::int64_t MappedPages(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page;
  std::vector<std::uint64_t> entries(end - first);
  const std::span<std::byte> wanted = std::as_writable_bytes(std::span(entries));
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(pagemap, wanted.data(), wanted.size(),
                    static_cast<off_t>(first * sizeof(std::uint64_t))),
            std::ssize(wanted));
  ::close(pagemap);
  return std::ranges::count_if(entries,
                               [](std::uint64_t entry) { return (entry & kPresent) != 0; });
}

void Touch(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    static_cast<void>(*const_cast<const volatile std::byte*>(&bytes[at]));
  }
}

TEST(WeightMemory, NothingIsDoneUnasked) {
  const Checkpoint checkpoint = OpenFairy();
  MemoryPieces pieces = ListTensors(checkpoint);
  const std::byte* before = pieces.front().data();
  const Held held = Hold(pieces, {});
  ASSERT_TRUE(held.memory);
  EXPECT_TRUE(held.memory->bytes().empty());
  EXPECT_TRUE(held.progress.empty());
  EXPECT_EQ(pieces.front().data(), before);
}

TEST(WeightMemory, CopiesPiecesOneBehindTheOtherAndReleasesTheFiles) {
  const Checkpoint original = OpenFairy();
  const MemoryPieces whole = ListTensors(original);
  for (const int n_threads : {1, 3}) {
    const Checkpoint checkpoint = OpenFairy();
    // Every second tensor, the last first, of some only a part: as a rank has them.
    MemoryPieces pieces;
    MemoryPieces expected;
    std::int64_t n_rounded = 0;
    for (std::size_t i = whole.size(); i-- > 0;) {
      if (i % 2 == 0) {
        const std::size_t n_bytes = i % 3 == 0 ? whole[i].size() / 2 : whole[i].size();
        pieces.push_back(checkpoint.tensors()[i].view.bytes.last(n_bytes));
        expected.push_back(whole[i].last(n_bytes));
        n_rounded += (static_cast<std::int64_t>(n_bytes) + 63) / 64 * 64;
      }
    }
    const Held held = Hold(pieces, {.huge_pages = true}, n_threads);
    ASSERT_TRUE(held.memory) << held.memory.error().message;
    EXPECT_EQ(std::ssize(held.memory->bytes()), n_rounded);
    ASSERT_EQ(pieces.size(), expected.size());
    const std::byte* next = held.memory->bytes().data();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_GE(pieces[i].data(), next);
      EXPECT_LT(pieces[i].data(), next + 64);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces[i].data()) % 64, 0u);
      ASSERT_EQ(pieces[i].size(), expected[i].size());
      ASSERT_EQ(std::memcmp(pieces[i].data(), expected[i].data(), pieces[i].size()), 0) << i;
      next = pieces[i].data() + pieces[i].size();
    }
    EXPECT_THAT(held.progress,
                ::testing::Each(::testing::AllOf(::testing::Gt(0.0), ::testing::Le(1.0))));
    // Only pages at the ends of pieces are left, and pages that the system mapped beside them
    // again.
    const std::span<const std::byte> file = checkpoint.Memory().front();
    EXPECT_LE(MappedPages(file), std::ssize(file) / 4096 / 4);
  }
}

TEST(WeightMemory, PreloadReportsProgressToItsEnd) {
  const Checkpoint checkpoint = OpenFairy();
  MemoryPieces pieces = ListTensors(checkpoint);
  const Held held = Hold(pieces, {.preload = true}, 1);
  ASSERT_TRUE(held.memory);
  ASSERT_FALSE(held.progress.empty());
  EXPECT_DOUBLE_EQ(held.progress.back(), 1.0);
}

// Nothing else of the files is locked, and released pages are not.
TEST(WeightMemory, PiecesAreLockedAlone) {
  const Checkpoint checkpoint = OpenFairy();
  const std::span<const std::byte> whole = checkpoint.Memory().front();
  MemoryPieces pieces = {
      whole.subspan(64 << 10, 100 << 10), {}, whole.subspan(256 << 10, 60 << 10)};
  if (!testing::MayLock(1 << 20)) GTEST_SKIP() << testing::kNoLocks;
  const std::int64_t before = testing::LockedKilobytes();
  const Held held = Hold(pieces, {.lock = true}, 1);
  ASSERT_TRUE(held.memory) << held.memory.error().message;
  EXPECT_DOUBLE_EQ(held.progress.back(), 1.0);
  EXPECT_GE(testing::LockedKilobytes() - before, 160);
  EXPECT_LE(testing::LockedKilobytes() - before, 160 + 4 * 4);
  for (const std::span<const std::byte> piece : pieces) {
    ReleasePages(piece);
  }
#if !defined(__SANITIZE_ADDRESS__)  // whose own munlock does nothing
  EXPECT_LE(testing::LockedKilobytes() - before, 4 * 4);
#endif
}

// The copies are what stays in memory, not the files.
TEST(WeightMemory, HugePagesAreLocked) {
  const Checkpoint checkpoint = OpenFairy();
  const std::span<const std::byte> whole = checkpoint.Memory().front();
  MemoryPieces pieces = {whole.subspan(64 << 10, 100 << 10), whole.subspan(256 << 10, 60 << 10)};
  if (!testing::MayLock(1 << 20)) GTEST_SKIP() << testing::kNoLocks;
  const std::int64_t before = testing::LockedKilobytes();
  {
    const Held held = Hold(pieces, {.huge_pages = true, .lock = true});
    ASSERT_TRUE(held.memory) << held.memory.error().message;
    EXPECT_EQ(testing::LockedKilobytes() - before, 160);
  }
  EXPECT_EQ(testing::LockedKilobytes(), before);
}

// The system maps pages beside those that are read; the shares of other ranks would fill the
// memory.
TEST(WeightMemory, WhatLiesBesidePiecesIsNotMapped) {
  const Checkpoint checkpoint = OpenFairy();
  const std::span<const std::byte> whole = checkpoint.Memory().front();
  // Two pages of every five.
  MemoryPieces pieces;
  for (std::size_t at = 1 << 20; at + 5 * 4096 <= 2 << 20; at += 5 * 4096) {
    pieces.push_back(whole.subspan(at, 2 * 4096));
  }
  Touch(whole);  // pages mapped by opening the files must go, too
  UnmapUnusedPages(checkpoint, pieces);
  for (const std::span<const std::byte> piece : pieces) {
    Touch(piece);
  }
  const std::int64_t mapped = MappedPages(whole.subspan(1 << 20, 1 << 20));
  EXPECT_GE(mapped, 2 * std::ssize(pieces));
  EXPECT_LE(mapped, 3 * std::ssize(pieces));
}

// Returns in how many mappings some bytes of a file are.
std::int64_t CountMappings(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::int64_t n = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto begin = static_cast<std::uintptr_t>(std::stoull(line, nullptr, 16));
    n += begin >= first && begin < first + bytes.size() ? 1 : 0;
  }
  return n;
}

TEST(WeightMemory, MappingsAreKeptForTheLargestGaps) {
  for (const std::size_t most : {0u, 1u, 3u}) {
    const Checkpoint checkpoint = OpenFairy();
    const std::span<const std::byte> whole = checkpoint.Memory().front();
    MemoryPieces pieces = checkpoint.Memory();  // the other files, and of this one
    pieces.front() = whole.first(100 << 10);
    for (const std::size_t at : {200, 700, 1000}) {
      pieces.push_back(whole.subspan(at << 10, 100 << 10));
    }
    pieces.push_back(whole.subspan(1200 << 10));
    Touch(whole);
    UnmapUnusedPages(checkpoint, pieces, most);
    EXPECT_EQ(CountMappings(whole), 1 + 2 * static_cast<std::int64_t>(most));
    const std::int64_t in_gaps = (100 + 400 + 200 + 100) / 4;
    EXPECT_EQ(MappedPages(whole), std::ssize(whole) / 4096 - in_gaps);
  }
}

// In a process of its own, to which the kernel gives no huge pages.
TEST(WeightMemoryDeathTest, WarnsIfThereAreNoHugePages) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hold = [] {
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    const Checkpoint checkpoint = OpenFairy();
    MemoryPieces pieces = ListTensors(checkpoint);
    const Held held = Hold(pieces, {.huge_pages = true});
    std::fputs(held.warnings.empty() ? "no warning" : held.warnings.front().c_str(), stderr);
    std::exit(held.memory ? 0 : 1);
  };
  EXPECT_EXIT(hold(), ::testing::ExitedWithCode(0),
              "the kernel gave huge pages for 0.0 of .* MB of weights");
}

}  // namespace
}  // namespace fathom::checkpoint
