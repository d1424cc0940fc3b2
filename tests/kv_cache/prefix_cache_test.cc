// Blocks are found again by their tokens, and given up in the order that the header promises.
#include "kv_cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kv_cache/letter_blocks.h"

namespace fathom::kv_cache {
namespace {

using testing::LetterKeys;
using testing::LetterTokens;

constexpr BlockKey kTestRoot = {.bytes = {1, 2, 3}};

BlockKey KeyOfLast(const std::string& letters) { return LetterKeys(kTestRoot, letters).back(); }

// Three sequences in the memory of twelve window blocks.
class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixCacheTest() { Make(128); }

  void Make(std::int64_t sliding_window) {
    prefix_.reset();
    CacheShape shape{.keys = {64, 64},
                     .sliding_window = sliding_window,
                     .ratios = {4, 0},
                     .max_context = 2'000,
                     .n_sequences = 3};
    const LayerBytes bytes = BytesPerSequence(shape);
    shape.memory_bytes = shape.n_sequences * bytes.constant + 12 * MakeWindowLayout(shape).bytes;
    Result<SequenceCache> cache = SequenceCache::Create(backend_, shape);
    ASSERT_TRUE(cache) << cache.error().message;
    cache_.emplace(std::move(*cache));
    prefix_.emplace(*cache_, kTestRoot);
    prefix_->set_on_evicted([this](const KeptBlock& evicted) {
      const char* kind = evicted.kind == BlockKind::kHistory ? "history " : "window ";
      evicted_.push_back(kind + names_.at(evicted.key));
    });
  }

  // Runs a text from where the cache has it, block by block, and keeps it pinned.
  void Begin(std::int32_t slot, const std::string& letters) {
    for (std::size_t n = 1; n <= letters.size(); ++n) {
      names_[KeyOfLast(letters.substr(0, n))] = letters.substr(0, n);
    }
    const std::vector<Token> tokens = LetterTokens(letters);
    const std::vector<BlockKey> keys = LetterKeys(kTestRoot, letters);
    const auto n_usable = prefix_->Find(keys, tokens).n_usable;
    prefix_->Attach(slot, keys, n_usable, chains_[slot]);
    for (std::int64_t i = n_usable; i < std::ssize(letters); ++i) {
      ASSERT_TRUE(cache_->Extend(slot, i * kBlockTokens, kBlockTokens, StoredWindows::kAll));
      cache_->MarkComputed(slot, (i + 1) * kBlockTokens);
      prefix_->Commit(slot, keys, tokens, i + 1, chains_[slot]);
      cache_->Trim(slot);
    }
    ASSERT_TRUE(prefix_->IsConsistent());
  }
  void End(std::int32_t slot) {
    cache_->Release(slot);
    prefix_->Unpin(chains_[slot]);
    ASSERT_TRUE(prefix_->IsConsistent());
  }
  // The text is over behind its last block.
  void EndMarked(std::int32_t slot) {
    prefix_->MarkEnd(chains_[slot], std::ssize(chains_[slot].entries));
    End(slot);
  }
  void Read(const std::string& letters) {
    Begin(2, letters);
    EndMarked(2);
  }
  PrefixCache::Match Find(const std::string& letters) {
    return prefix_->Find(LetterKeys(kTestRoot, letters), LetterTokens(letters));
  }
  // Makes room for one window block after the other until there is none more to be had.
  void MakeAllRoom() {
    for (std::int64_t n = 1; prefix_->MakeRoom({.window = n}, false); ++n) {
      ASSERT_TRUE(prefix_->IsConsistent());
    }
  }

  ReferenceBackend backend_;
  std::optional<SequenceCache> cache_;
  std::optional<PrefixCache> prefix_;
  std::map<std::int32_t, PrefixChain> chains_;
  std::map<BlockKey, std::string> names_;
  std::vector<std::string> evicted_;
};

void ExpectMatch(const PrefixCache::Match& match, std::int64_t n_known, std::int64_t n_usable) {
  EXPECT_EQ(match.n_known, n_known);
  EXPECT_EQ(match.n_usable, n_usable);
}

TEST_F(PrefixCacheTest, KeysFollowFromAllTokensBefore) {
  std::vector<BlockKey> keys = LetterKeys(kTestRoot, "ab");
  EXPECT_EQ(keys[0], NextBlockKey(kTestRoot, LetterTokens("a")));
  EXPECT_EQ(keys[1], NextBlockKey(keys[0], LetterTokens("b")));
  EXPECT_NE(KeyOfLast("ab"), KeyOfLast("bb"));
  std::vector<Token> tokens = LetterTokens("abc");
  tokens.pop_back();  // not a whole block any more
  ExtendKeys(kTestRoot, tokens, keys);
  EXPECT_EQ(keys, LetterKeys(kTestRoot, "ab"));
  tokens.push_back('c');
  ExtendKeys(kTestRoot, tokens, keys);
  EXPECT_EQ(keys, LetterKeys(kTestRoot, "abc"));
}

TEST_F(PrefixCacheTest, SaltsMakeOtherKeys) {
  EXPECT_EQ(SaltedRoot(kTestRoot, ""), kTestRoot);
  const BlockKey salted = SaltedRoot(kTestRoot, "a");
  EXPECT_NE(salted, kTestRoot);
  EXPECT_NE(salted, SaltedRoot(kTestRoot, "b"));
  EXPECT_NE(LetterKeys(salted, "xy")[0], LetterKeys(kTestRoot, "xy")[0]);
  EXPECT_NE(LetterKeys(salted, "xy")[1], LetterKeys(kTestRoot, "xy")[1]);
}

TEST_F(PrefixCacheTest, FindsAsMuchAsIsThere) {
  ExpectMatch(Find("abc"), 0, 0);
  Read("abc");
  ExpectMatch(Find("abc"), 3, 3);
  ExpectMatch(Find("abcd"), 3, 3);
  ExpectMatch(Find("ab"), 2, 2);
  ExpectMatch(Find("abd"), 2, 2);
  ExpectMatch(Find("b"), 0, 0);
  ExpectMatch(Find("bbc"), 0, 0);
  ExpectMatch(Find(""), 0, 0);
}

TEST_F(PrefixCacheTest, ASequenceBeginsOnlyWhereTheWindowIs) {
  Read("abc");
  ASSERT_TRUE(prefix_->MakeRoom({.window = cache_->arena().n_free_slabs() + 2}, true));
  EXPECT_FALSE(prefix_->HasWindow(KeyOfLast("ab")));
  EXPECT_FALSE(prefix_->HasWindow(KeyOfLast("a")));
  EXPECT_TRUE(prefix_->HasWindow(KeyOfLast("abc")));
  ExpectMatch(Find("abc"), 3, 3);
  ExpectMatch(Find("abd"), 2, 0);
  ExpectMatch(Find("a"), 1, 0);
  // A sequence that computes the blocks again gives them windows, and uses the history that is
  // there.
  Begin(1, "ab");
  ExpectMatch(Find("abd"), 2, 2);
  EXPECT_EQ(prefix_->n_entries(), 3);
  EXPECT_EQ(cache_->arena().in_use(), (BlockCounts{3, 3}));
}

TEST_F(PrefixCacheTest, ALongWindowNeedsTwoBlocksInARow) {
  Make(200);
  Read("abcd");
  EXPECT_EQ(cache_->BoundaryWindows(1), 1);
  EXPECT_EQ(cache_->BoundaryWindows(4), 2);
  ExpectMatch(Find("abcd"), 4, 4);
  ASSERT_TRUE(prefix_->MakeRoom({.window = cache_->arena().n_free_slabs() + 1}, true));
  EXPECT_FALSE(prefix_->HasWindow(KeyOfLast("a")));
  ExpectMatch(Find("a"), 1, 0);
  ExpectMatch(Find("ab"), 2, 0);  // b's window alone is not enough
  ExpectMatch(Find("abc"), 3, 3);
  ExpectMatch(Find("abcd"), 4, 4);
}

TEST_F(PrefixCacheTest, TextsShareTheBlocksTheyBeginWith) {
  Begin(0, "abc");
  Begin(1, "abd");
  EXPECT_EQ(prefix_->n_entries(), 4);
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    EXPECT_NE(cache_->FindBlock(kind, 0, 2), cache_->FindBlock(kind, 1, 2));
  }
  for (const std::int64_t i : {0, 1}) {
    EXPECT_EQ(cache_->FindBlock(BlockKind::kHistory, 0, i),
              cache_->FindBlock(BlockKind::kHistory, 1, i));
  }
  EXPECT_EQ(cache_->arena().in_use().history, 4);
  EXPECT_EQ(prefix_->Evictable().history, 0);
  End(0);
  EXPECT_EQ(prefix_->Evictable().history, 1);
  End(1);
  EXPECT_EQ(prefix_->Evictable().history, 4);
  EXPECT_EQ(cache_->arena().in_use(), (BlockCounts{4, 4}));
}

// Two sequences compute the same side by side: the second one to commit takes the blocks of the
// first, and its own are free again.
TEST_F(PrefixCacheTest, TheSecondCommitTakesTheBlocksOfTheFirst) {
  const std::vector<Token> tokens = LetterTokens("ab");
  const std::vector<BlockKey> keys = LetterKeys(kTestRoot, "ab");
  for (const std::int32_t slot : {0, 1}) {
    ASSERT_TRUE(cache_->Extend(slot, 0, 256, StoredWindows::kAll));
    cache_->MarkComputed(slot, 256);
  }
  EXPECT_EQ(cache_->arena().in_use(), (BlockCounts{4, 4}));
  for (const std::int32_t slot : {0, 1}) {
    prefix_->Commit(slot, keys, tokens, 2, chains_[slot]);
  }
  EXPECT_EQ(cache_->arena().in_use(), (BlockCounts{2, 2}));
  for (const BlockKind kind : {BlockKind::kHistory, BlockKind::kWindow}) {
    EXPECT_EQ(cache_->FindBlock(kind, 0, 1), cache_->FindBlock(kind, 1, 1));
    EXPECT_EQ(cache_->arena().uses(kind, cache_->FindBlock(kind, 0, 1)), 3);
  }
  End(0);
  End(1);
}

TEST_F(PrefixCacheTest, MiddleWindowsGoFirstThenTheLeastRecentlyUsed) {
  Read("ab");
  Read("xy");
  Read("ac");  // begins behind `a`, which is an end now: others may do so too
  MakeAllRoom();
  // Middle windows leave without a word: `x`. Then by age: the ends of ab and of xy with their
  // blocks, and what stands behind something after it.
  EXPECT_EQ(evicted_, (std::vector<std::string>{"window ab", "history ab", "window xy",
                                                "history xy", "history x", "window a", "window ac",
                                                "history ac", "history a"}));
  EXPECT_EQ(prefix_->n_entries(), 0);
  EXPECT_EQ(cache_->arena().in_use(), (BlockCounts{0, 0}));
}

TEST_F(PrefixCacheTest, WhatRunsIsNeverTaken) {
  Begin(0, "ab");
  Read("xy");
  MakeAllRoom();
  ExpectMatch(Find("xy"), 0, 0);
  EXPECT_EQ(Find("ab").n_known, 2);
  // The window that the sequence can see is in its table; the one before was not any more.
  EXPECT_TRUE(prefix_->HasWindow(KeyOfLast("ab")));
  EXPECT_EQ(prefix_->n_entries(), 2);
  End(0);
  MakeAllRoom();
  EXPECT_EQ(prefix_->n_entries(), 0);
}

TEST_F(PrefixCacheTest, OnlyWindowsMeansOnlyThoseInTheMiddle) {
  Read("abc");
  const std::int64_t n_free = cache_->arena().n_free_slabs();
  EXPECT_FALSE(prefix_->MakeRoom({.window = n_free + 3}, true));
  EXPECT_EQ(cache_->arena().n_free_slabs(), n_free + 2);
  EXPECT_TRUE(evicted_.empty());
  EXPECT_EQ(prefix_->n_entries(), 3);
  EXPECT_EQ(prefix_->n_evicted(), 2);
  ExpectMatch(Find("abc"), 3, 3);
}

TEST_F(PrefixCacheTest, AForkPinsTheSameEntries) {
  Begin(0, "ab");
  cache_->Fork(0, 1);
  prefix_->Share(chains_[0], chains_[1]);
  End(0);
  EXPECT_EQ(prefix_->Evictable().history, 0);
  MakeAllRoom();
  EXPECT_EQ(prefix_->n_entries(), 2);
  End(1);
  EXPECT_EQ(prefix_->Evictable().history, 2);
}

TEST_F(PrefixCacheTest, InsertedBlocksAreFoundAndGoLast) {
  Read("a");
  Read("x");
  BlockArena& arena = cache_->arena();
  const auto take = [&](BlockKind kind) { return arena.Allocate(kind).value(); };
  names_[KeyOfLast("ab")] = "ab";
  prefix_->Insert(KeyOfLast("ab"), KeyOfLast("a"), LetterTokens("b"), take(BlockKind::kHistory),
                  kNoBlock);
  ASSERT_TRUE(prefix_->IsConsistent());
  ExpectMatch(Find("abc"), 2, 1);
  prefix_->InsertWindow(KeyOfLast("ab"), take(BlockKind::kWindow));
  ASSERT_TRUE(prefix_->IsConsistent());
  ExpectMatch(Find("abc"), 2, 2);
  MakeAllRoom();
  EXPECT_EQ(evicted_, (std::vector<std::string>{"window a", "window x", "history x", "window ab",
                                                "history ab", "history a"}));
  EXPECT_EQ(arena.in_use(), (BlockCounts{0, 0}));
}

// A key that belongs to other tokens: nothing of it is used, and nothing behind it is kept.
TEST_F(PrefixCacheTest, AKeyOfOtherTokensIsNoMatch) {
  Read("a");
  BlockArena& arena = cache_->arena();
  names_[KeyOfLast("ab")] = "a and something else";
  prefix_->Insert(KeyOfLast("ab"), KeyOfLast("a"), LetterTokens("?"),
                  arena.Allocate(BlockKind::kHistory).value(),
                  arena.Allocate(BlockKind::kWindow).value());
  ExpectMatch(Find("abc"), 1, 1);
  Begin(1, "abcd");
  EXPECT_TRUE(chains_[1].collided);
  EXPECT_EQ(chains_[1].entries.size(), 1U);
  EXPECT_EQ(prefix_->n_entries(), 2);
  EXPECT_FALSE(prefix_->Has(KeyOfLast("abc")));
  End(1);
  EXPECT_FALSE(chains_[1].collided);
  MakeAllRoom();
  EXPECT_EQ(arena.in_use(), (BlockCounts{0, 0}));
}

TEST_F(PrefixCacheTest, TellsOfWhatIsWorthStoring) {
  Begin(0, "abc");
  prefix_->MarkEnd(chains_[0], 2);
  std::vector<std::string> told;
  const auto tell = [&](const KeptBlock& evicted) {
    told.push_back((evicted.kind == BlockKind::kHistory ? "history " : "window ") +
                   names_.at(evicted.key));
    const std::string& name = names_.at(evicted.key);
    EXPECT_EQ(evicted.parent,
              name.size() == 1 ? kTestRoot : KeyOfLast(name.substr(0, name.size() - 1)));
    EXPECT_TRUE(std::ranges::equal(evicted.tokens, LetterTokens(name.substr(name.size() - 1))));
  };
  prefix_->ForEach(chains_[0], tell);
  const std::vector<std::string> expected = {"history abc", "history ab", "window ab", "history a"};
  EXPECT_EQ(told, expected);
  told.clear();
  prefix_->ForEachIdle(tell);
  EXPECT_TRUE(told.empty());
  End(0);
  prefix_->ForEachIdle(tell);
  EXPECT_EQ(told, expected);
}

}  // namespace
}  // namespace fathom::kv_cache
