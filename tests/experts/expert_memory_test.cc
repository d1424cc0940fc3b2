#include "experts/store/expert_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "kernels/registry.h"
#include "tests/testing/locks.h"

namespace fathom::experts {
namespace {

TEST(ExpertMemoryTest, PiecesAreApartAndAreTakenAgain) {
  const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
  ExpertMemory memory(*backend, 40 * 1024);
  std::vector<std::span<std::byte>> pieces;
  for (int i = 0; i < 40; ++i) {  // more than a buffer has
    const Result<std::span<std::byte>> piece = memory.Allocate(1000);
    ASSERT_TRUE(piece.has_value()) << piece.error().message;
    EXPECT_EQ(piece->size(), 1024u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece->data()) % 64, 0u);
    std::fill(piece->begin(), piece->end(), static_cast<std::byte>(i));
    pieces.push_back(*piece);
  }
  for (int i = 0; i < 40; ++i) {
    const auto& piece = pieces[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::count(piece.begin(), piece.end(), static_cast<std::byte>(i)), 1024);
  }
  EXPECT_EQ(memory.bytes(), 40 * 1024);
  const Result<std::span<std::byte>> refused = memory.Allocate(1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(refused.error().message, "moved experts: expected at most 40960 bytes, found 41024");
  memory.Free(pieces[7]);
  memory.ReleaseFree();
  EXPECT_FALSE(memory.Allocate(1025).has_value());
  EXPECT_EQ(memory.Allocate(1024)->data(), pieces[7].data());
  // Its neighbours have kept what they hold.
  EXPECT_EQ(pieces[6][1023], std::byte{6});
  EXPECT_EQ(pieces[8][0], std::byte{8});
}

TEST(ExpertMemoryTest, WhatIsInUseIsLocked) {
  if (!testing::MayLock(1 << 20)) GTEST_SKIP() << testing::kNoLocks;
  const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
  ExpertMemory memory(*backend, 0, 0);
  const std::int64_t before = testing::LockedKilobytes();
  const std::span<std::byte> piece = *memory.Allocate(100 << 10);
  const auto expect_locked = [&] {
    EXPECT_GE(testing::LockedKilobytes() - before, 100);
    EXPECT_LE(testing::LockedKilobytes() - before, 100 + 2 * 4);
  };
  expect_locked();
  memory.Free(piece);
#if !defined(__SANITIZE_ADDRESS__)  // whose own munlock does nothing
  memory.ReleaseFree();
  EXPECT_LE(testing::LockedKilobytes() - before, 2 * 4);
#endif
  EXPECT_EQ(memory.Allocate(100 << 10)->data(), piece.data());
  expect_locked();
}

// In a process of its own, which gives up the right to lock without limit.
TEST(ExpertMemoryDeathTest, WhatCannotBeLockedIsNotTaken) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto take = [] {
    const std::unique_ptr<Backend> backend = *MakeCpuBackend(std::nullopt, 1);
    ExpertMemory memory(*backend, 0, 5000);
    if (!testing::LimitLocks(65536)) std::_Exit(2);
    const bool has_small = memory.Allocate(8192).has_value();
    const Result<std::span<std::byte>> large = memory.Allocate(100'032);
    std::fputs(large ? "locked" : large.error().message.c_str(), stderr);
    std::_Exit(has_small && !large ? 0 : 1);
  };
  EXPECT_EXIT(take(), ::testing::ExitedWithCode(0),
              "cannot lock moved experts in memory .*: expected a limit of at least 113224 bytes");
}

}  // namespace
}  // namespace fathom::experts
