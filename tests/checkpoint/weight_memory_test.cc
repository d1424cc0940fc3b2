#include "checkpoint/weight_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

struct Held {
  Status status;
  std::vector<double> progress;
  std::vector<std::string> warnings;
};

Held Hold(Checkpoint& checkpoint, const WeightMemory& memory, int n_threads = 2) {
  Held held;
  ThreadTeam team(n_threads);
  held.status = HoldWeights(
      checkpoint, memory, team, [&](double share) { held.progress.push_back(share); },
      held.warnings);
  return held;
}

Checkpoint OpenFairy() {
  Result<Checkpoint> checkpoint = Checkpoint::Open(testing::ProjectPath("models/fairy"));
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  return checkpoint ? *std::move(checkpoint) : Checkpoint();
}

TEST(WeightMemory, NothingIsDoneUnasked) {
  Checkpoint checkpoint = OpenFairy();
  const std::byte* before = checkpoint.tensors().front().view.bytes.data();
  const Held held = Hold(checkpoint, {});
  EXPECT_TRUE(held.status);
  EXPECT_TRUE(held.progress.empty());
  EXPECT_EQ(checkpoint.tensors().front().view.bytes.data(), before);
}

TEST(WeightMemory, CopiesEveryTensorAndReleasesTheFiles) {
  const Checkpoint original = OpenFairy();
  for (const int n_threads : {1, 3}) {
    Checkpoint checkpoint = OpenFairy();
    const Held held = Hold(checkpoint, {.huge_pages = true}, n_threads);
    ASSERT_TRUE(held.status) << held.status.error().message;
    ASSERT_EQ(checkpoint.tensors().size(), original.tensors().size());
    for (std::size_t i = 0; i < original.tensors().size(); ++i) {
      const TensorView& from = original.tensors()[i].view;
      const TensorView& to = checkpoint.tensors()[i].view;
      ASSERT_EQ(to.bytes.size(), from.bytes.size());
      ASSERT_EQ(std::memcmp(to.bytes.data(), from.bytes.data(), to.bytes.size()), 0)
          << original.tensors()[i].name;
      EXPECT_TRUE(IsAligned(to));
      EXPECT_EQ(checkpoint.Find(original.tensors()[i].name), &to);
    }
    EXPECT_EQ(checkpoint.Memory().size(), original.shards().size()) << "copies only";
    EXPECT_THAT(held.progress,
                ::testing::Each(::testing::AllOf(::testing::Gt(0.0), ::testing::Le(1.0))));
  }
}

TEST(WeightMemory, PreloadReportsProgressToItsEnd) {
  Checkpoint checkpoint = OpenFairy();
  const Held held = Hold(checkpoint, {.preload = true}, 1);
  ASSERT_TRUE(held.status);
  ASSERT_FALSE(held.progress.empty());
  EXPECT_DOUBLE_EQ(held.progress.back(), 1.0);
}

// Kilobytes of this process that are locked.
std::int64_t LockedKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) {
      return std::stoll(line.substr(6));
    }
  }
  return -1;
}

// Of the files nothing else is locked, and what is released again is not.
TEST(WeightMemory, PiecesAreLockedAlone) {
  const Checkpoint checkpoint = OpenFairy();
  const std::span<const std::byte> whole = checkpoint.Memory().front();
  const MemoryPieces pieces = {
      whole.subspan(64 << 10, 100 << 10), {}, whole.subspan(256 << 10, 60 << 10)};
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (limit.rlim_cur < (1 << 20)) {
    GTEST_SKIP() << "this system lets a process lock " << limit.rlim_cur << " bytes";
  }
  std::vector<double> progress;
  ThreadTeam team(1);
  const std::int64_t before = LockedKilobytes();
  const Status held = HoldPieces(checkpoint, pieces, {.lock = true}, team,
                                 [&](double share) { progress.push_back(share); });
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_DOUBLE_EQ(progress.back(), 1.0);
  EXPECT_GE(LockedKilobytes() - before, 160);
  EXPECT_LE(LockedKilobytes() - before, 160 + 4 * 4);
  for (const std::span<const std::byte> piece : pieces) {
    ReleasePages(piece);
  }
#if !defined(__SANITIZE_ADDRESS__)  // whose own munlock does nothing
  EXPECT_LE(LockedKilobytes() - before, 4 * 4);
#endif
}

// How many pages of `bytes` this process has mapped.
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

// The system maps pages beside those that are read; what other ranks have would fill the memory.
TEST(WeightMemory, WhatLiesBesidePiecesIsNotMapped) {
  const Checkpoint checkpoint = OpenFairy();
  const std::span<const std::byte> whole = checkpoint.Memory().front();
  // Two pages of every five.
  MemoryPieces pieces;
  for (std::size_t at = 1 << 20; at + 5 * 4096 <= 2 << 20; at += 5 * 4096) {
    pieces.push_back(whole.subspan(at, 2 * 4096));
  }
  Touch(whole);  // what opening the files has mapped is not to stay either
  ThreadTeam team(2);
  ASSERT_TRUE(HoldPieces(checkpoint, pieces, {}, team, {}));
  for (const std::span<const std::byte> piece : pieces) {
    Touch(piece);
  }
  const std::int64_t mapped = MappedPages(whole.subspan(1 << 20, 1 << 20));
  EXPECT_GE(mapped, 2 * std::ssize(pieces));
  EXPECT_LE(mapped, 3 * std::ssize(pieces));
}

// In a process of its own, to which the kernel gives no huge pages.
TEST(WeightMemoryDeathTest, WarnsIfThereAreNoHugePages) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hold = [] {
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    Checkpoint checkpoint = OpenFairy();
    const Held held = Hold(checkpoint, {.huge_pages = true});
    std::fputs(held.warnings.empty() ? "no warning" : held.warnings.front().c_str(), stderr);
    std::exit(held.status ? 0 : 1);
  };
  EXPECT_EXIT(hold(), ::testing::ExitedWithCode(0),
              "the kernel gave huge pages for 0.0 of .* MB of weights");
}

}  // namespace
}  // namespace fathom
