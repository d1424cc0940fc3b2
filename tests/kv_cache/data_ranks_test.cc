// Several data ranks: each has the memory of its own sequences, and none gives a sequence a block
// of another.
#include "kv_cache/data_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/sequence_cache.h"

namespace fathom::kv_cache {
namespace {

constexpr BlockKey kDataRankRoot = {.bytes = {5}};

CacheShape MakeShape(int rank, int n_ranks, std::int64_t n_sequences) {
  return {.keys = {64, 64},
          .sliding_window = 128,
          .ratios = {0, 4, 128},
          .max_context = 1'000,
          .n_sequences = n_sequences,
          .data = {.rank = rank, .n = n_ranks},
          .rollback = 8,
          .stream_bytes = 40};
}

std::vector<std::byte> MakeStream(int value) {
  return std::vector<std::byte>(40, static_cast<std::byte>(value));
}

class DataRanksTest : public ::testing::Test {
 protected:
  SequenceCache Make(const CacheShape& shape) {
    Result<SequenceCache> cache = SequenceCache::Create(backend_, shape);
    EXPECT_TRUE(cache) << cache.error().message;
    return *std::move(cache);
  }

  ReferenceBackend backend_;
};

TEST_F(DataRanksTest, OwnSlotsHaveNoGaps) {
  for (int n = 1; n <= 4; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      const DataRanks ranks = {.rank = rank, .n = n};
      std::int32_t slot = 0;
      for (std::int32_t sequence = 0; sequence < 10; ++sequence) {
        if (ranks.IsOwn(sequence)) {
          EXPECT_EQ(ranks.OwnSlot(sequence), slot);
          EXPECT_EQ(ranks.SequenceIn(slot), sequence);
          ++slot;
        }
      }
      EXPECT_LE(slot, ranks.OwnSlots(10));
    }
  }
}

TEST_F(DataRanksTest, ARankHasTheMemoryOfItsOwnSequences) {
  const std::int64_t of_two = Make(MakeShape(0, 1, 2)).bytes();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Make(MakeShape(rank, 3, 6)).bytes(), of_two);
    EXPECT_EQ(Make(MakeShape(rank, 3, 4)).bytes(), of_two);  // as much as the first
    EXPECT_EQ(SequenceCache::FullBytes(MakeShape(rank, 3, 6)), of_two);
  }
  CacheShape small = MakeShape(1, 3, 6);
  small.memory_bytes = 3 * of_two / 4;
  const SequenceCache cache = Make(small);
  EXPECT_LE(cache.bytes(), small.memory_bytes);
  EXPECT_EQ(cache.arena(0).n_slabs(), cache.arena(1).n_slabs());
}

TEST_F(DataRanksTest, ASequenceTakesTheBlocksOfItsRankAlone) {
  SequenceCache cache = Make(MakeShape(0, 2, 4));
  ASSERT_TRUE(cache.Extend(1, 0, 300, StoredWindows::kAll));
  EXPECT_EQ(cache.arena(0).in_use(), BlockCounts());
  EXPECT_EQ(cache.arena(1).in_use(), (BlockCounts{3, 3}));
  ASSERT_TRUE(cache.Extend(2, 0, 130, StoredWindows::kAll));
  EXPECT_EQ(cache.arena(0).in_use(), (BlockCounts{2, 2}));
  cache.MarkComputed(1, 300);
  cache.Fork(1, 3);
  EXPECT_EQ(cache.arena(1).in_use(), (BlockCounts{3, 3}));
  cache.Release(1);
  EXPECT_EQ(cache.arena(1).in_use(), (BlockCounts{3, 3}));
  cache.Release(3);
  EXPECT_EQ(cache.arena(1).in_use(), BlockCounts());
  EXPECT_EQ(cache.arena(0).in_use(), (BlockCounts{2, 2}));
}

// The views of the layers know own slots; what is copied on another rank is noted, and not done.
TEST_F(DataRanksTest, BytesAreThoseOfOwnSequences) {
  SequenceCache cache = Make(MakeShape(1, 2, 4));
  std::vector<CacheCopy> notes;
  cache.NoteCopies(&notes);
  for (const std::int32_t sequence : {0, 3}) {
    ASSERT_TRUE(cache.Extend(sequence, 0, 100));
    cache.MarkComputed(sequence, 100);
  }
  const LayerCache& layer = cache.Layer(1);
  EXPECT_EQ(layer.window.Row(0, 5), nullptr);  // sequence 1 has nothing
  std::uint8_t* row = layer.window.Row(1, 5);
  ASSERT_NE(row, nullptr);
  *row = 17;
  const std::vector<std::byte> stream = MakeStream(4);
  cache.KeepStreams(std::vector<KeptStream>{{3, 99, stream.data()}});
  cache.Fork(3, 1);
  cache.Fork(0, 2);
  EXPECT_EQ(layer.window.Row(0, 5), row);
  EXPECT_EQ(cache.Stream(1)[0], std::byte{4});
  ASSERT_TRUE(cache.Extend(1, 100, 1));  // copies the blocks that it shares
  ASSERT_TRUE(cache.Extend(2, 100, 1));
  ASSERT_NE(layer.window.Row(0, 5), row);
  EXPECT_EQ(*layer.window.Row(0, 5), 17);
  std::vector<int> ranks;
  for (const CacheCopy& copy : notes) {
    ranks.push_back(copy.data_rank);
  }
  EXPECT_EQ(ranks, (std::vector<int>{1, 0, 1, 1, 0, 0}));
}

using DataRanksDeathTest = DataRanksTest;

TEST_F(DataRanksDeathTest, NoSequenceReadsBlocksThatAnotherRankComputed) {
  SequenceCache cache = Make(MakeShape(0, 2, 4));
  PrefixCache prefix(cache, kDataRankRoot, 1);
  const std::vector<Token> tokens(2 * kBlockTokens, 7);
  std::vector<BlockKey> keys;
  ExtendKeys(kDataRankRoot, tokens, keys);
  ASSERT_TRUE(cache.Extend(1, 0, std::ssize(tokens), StoredWindows::kAll));
  cache.MarkComputed(1, std::ssize(tokens));
  PrefixChain chain;
  prefix.Commit(1, keys, tokens, 2, chain);
  PrefixChain other;
  EXPECT_DEATH(prefix.Attach(0, keys, 2, other), "blocks that another data rank computed");
  EXPECT_DEATH(prefix.Commit(2, keys, tokens, 2, other), "blocks that another data rank computed");
  EXPECT_DEATH(cache.Fork(1, 2), "a sequence of another data rank");
  EXPECT_DEATH(cache.Stream(1), "a sequence that another data rank has");
  EXPECT_DEATH(cache.KeepStreams(std::vector<KeptStream>{{3, 0, nullptr}}),
               "a sequence that another data rank has");
  EXPECT_DEATH(cache.arena(), "there are several");
  EXPECT_DEATH(cache.FollowEntry(BlockKind::kWindow, 1, 0,
                                 static_cast<std::int32_t>(cache.arena(1).n_slabs())),
               "a block that no rank has");
  prefix.Attach(3, keys, 2, other);
  EXPECT_EQ(cache.FindBlock(BlockKind::kHistory, 3, 1), cache.FindBlock(BlockKind::kHistory, 1, 1));
  prefix.Unpin(other);
  prefix.Unpin(chain);
}

}  // namespace
}  // namespace fathom::kv_cache
