// Blocks of two sizes in one memory: none is given out twice, none is lost, no two share bytes.
#include "kv_cache/block_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace fathom::kv_cache {
namespace {

constexpr BlockKind kKinds[] = {BlockKind::kHistory, BlockKind::kWindow};

TEST(BlockArena, AWholeArenaOfEitherKind) {
  for (const std::int64_t per_slab : {1, 3, 64}) {
    for (const BlockKind kind : kKinds) {
      BlockArena arena(5, per_slab);
      const std::int64_t n = kind == BlockKind::kHistory ? 5 * per_slab : 5;
      std::vector<std::int32_t> taken;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto block = arena.Allocate(kind);
        ASSERT_TRUE(block);
        taken.push_back(*block);
      }
      EXPECT_FALSE(arena.Allocate(kind));
      EXPECT_FALSE(arena.HasRoom({.history = 1}));
      EXPECT_FALSE(arena.HasRoom({.window = 1}));
      EXPECT_TRUE(arena.HasRoom({}));
      std::sort(taken.begin(), taken.end());
      for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(taken[static_cast<std::size_t>(i)], i);
      }
      for (const std::int32_t block : taken) {
        arena.Free(kind, block);
      }
      EXPECT_EQ(arena.n_free_slabs(), 5);
      EXPECT_TRUE(arena.HasRoom({.window = 5}));
    }
  }
}

TEST(BlockArena, OfNothing) {
  BlockArena arena(0, 1);
  EXPECT_FALSE(arena.Allocate(BlockKind::kHistory));
  EXPECT_FALSE(arena.Allocate(BlockKind::kWindow));
}

TEST(BlockArena, ReservedSlabsAreForHistory) {
  BlockArena arena(4, 2, 3);
  EXPECT_TRUE(arena.HasRoom({.history = 6, .window = 1}));
  EXPECT_FALSE(arena.HasRoom({.window = 2}));
  EXPECT_EQ(arena.Allocate(BlockKind::kWindow), 3);
  EXPECT_FALSE(arena.Allocate(BlockKind::kWindow));
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(arena.Allocate(BlockKind::kHistory));
  }
  EXPECT_FALSE(arena.Allocate(BlockKind::kHistory));
}

// A model of an arena that is a list of what is in use.
class ArenaWalk {
 public:
  ArenaWalk(std::int64_t n_slabs, std::int64_t per_slab, std::int64_t reserved, std::uint32_t seed)
      : arena_(n_slabs, per_slab, reserved),
        bytes_(static_cast<std::size_t>(n_slabs * per_slab)),
        per_slab_(per_slab),
        random_(seed) {}

  void Step() {
    const BlockKind kind = kKinds[Below(2)];
    if (Below(2) == 0 || live_.empty()) {
      Take(kind);
    } else {
      Change(Below(live_.size()));
    }
    std::int64_t history = 0;
    for (const Use& use : live_) {
      history += use.kind == BlockKind::kHistory ? 1 : 0;
    }
    ASSERT_EQ(arena_.in_use(), (BlockCounts{history, std::ssize(live_) - history}));
  }

 private:
  struct Use {
    BlockKind kind;
    std::int32_t block;
    std::int32_t uses;
  };

  std::size_t Below(std::size_t n) { return random_() % n; }

  void Take(BlockKind kind) {
    const BlockCounts one = {.history = kind == BlockKind::kHistory ? 1 : 0,
                             .window = kind == BlockKind::kWindow ? 1 : 0};
    const bool room = arena_.HasRoom(one);
    const auto block = arena_.Allocate(kind);
    ASSERT_EQ(block.has_value(), room);
    if (block) {
      live_.push_back({kind, *block, 1});
      Mark(live_.back(), true);
    }
  }

  void Change(std::size_t i) {
    Use& use = live_[i];
    if (Below(3) == 0) {
      arena_.Share(use.kind, use.block);
      use.uses += 1;
    } else {
      arena_.Free(use.kind, use.block);
      use.uses -= 1;
    }
    ASSERT_EQ(arena_.uses(use.kind, use.block), use.uses);
    if (use.uses == 0) {
      Mark(use, false);
      std::swap(use, live_.back());
      live_.pop_back();
    }
  }

  // In units of history blocks.
  void Mark(const Use& use, bool value) {
    const bool window = use.kind == BlockKind::kWindow;
    const auto first = static_cast<std::size_t>(use.block * (window ? per_slab_ : 1));
    for (std::size_t i = first; i < first + static_cast<std::size_t>(window ? per_slab_ : 1); ++i) {
      ASSERT_NE(bytes_.at(i), value);
      bytes_[i] = value;
    }
  }

  BlockArena arena_;
  std::vector<bool> bytes_;
  const std::int64_t per_slab_;
  std::mt19937 random_;
  std::vector<Use> live_;
};

TEST(BlockArena, NoTwoBlocksShareBytes) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const std::int64_t per_slab = seed % 7 == 0 ? 64 : 1 + seed % 9;
    ArenaWalk walk(1 + seed % 70, per_slab, seed % 3 == 0 ? (1 + seed % 70) / 2 : 0, seed);
    for (int step = 0; step < 2'000 && !::testing::Test::HasFatalFailure(); ++step) {
      walk.Step();
    }
  }
}

TEST(BlockArenaDeathTest, AFreeBlockCannotBeReturnedOrShared) {
  BlockArena arena(2, 2);
  const std::int32_t block = arena.Allocate(BlockKind::kHistory).value();
  arena.Free(BlockKind::kHistory, block);
  EXPECT_DEATH(arena.Free(BlockKind::kHistory, block), "freeing a block that is not in use");
  EXPECT_DEATH(arena.Share(BlockKind::kWindow, 0), "sharing a block that is not in use");
  EXPECT_DEATH(arena.Free(BlockKind::kWindow, 2), "freeing a block that is not in use");
}

}  // namespace
}  // namespace fathom::kv_cache
