// Random lives of sequences over one prefix cache, against a model of it that is a map of texts and
// a list of which was used last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kv_cache/prefix_cache.h"
#include "tests/kv_cache/letter_blocks.h"
#include "tests/testing/remote_backend.h"

namespace fathom::kv_cache {
namespace {

using testing::LetterKeys;
using testing::LetterTokens;

constexpr BlockKey kWalkRoot = {.bytes = {9}};
constexpr std::int32_t kSlots = 4;
constexpr std::int64_t kMostBlocks = 7;

// A sequence that runs, or an empty slot.
struct Runner {
  bool runs = false;
  std::string text;
  std::int64_t done = 0;  // positions
  PrefixChain chain;

  std::int64_t n_blocks() const { return done / kBlockTokens; }
  std::string Committed() const {
    return text.substr(0, static_cast<std::size_t>(std::ssize(chain.entries)));
  }
};

class CacheWalk {
 public:
  CacheWalk(SequenceCache& cache, std::uint32_t seed)
      : cache_(cache), prefix_(cache, kWalkRoot), random_(seed), runners_(kSlots) {
    prefix_.set_on_evicted([this](const KeptBlock& evicted) { Left(evicted); });
  }

  void Step() {
    const auto slot = static_cast<std::int32_t>(Below(kSlots));
    Runner& runner = runners_[static_cast<std::size_t>(slot)];
    switch (Below(12)) {
      case 0:
        MakeRoom({Below(6), Below(4)}, Below(2) == 0);
        break;
      case 1:
        Insert(RandomText());
        break;
      case 2:
        if (runner.runs) {
          Fork(slot, runner);
        }
        break;
      case 3:
        if (runner.runs) {
          End(slot, runner);
        }
        break;
      default:
        if (runner.runs) {
          Advance(slot, runner);
        } else {
          Begin(slot, runner);
        }
    }
    Expect();
  }
  std::int64_t n_evicted() const { return prefix_.n_evicted(); }

 private:
  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(n));
  }
  // Few letters: many texts begin alike.
  std::string RandomText() {
    std::string text;
    for (std::int64_t i = 1 + Below(kMostBlocks); i > 0; --i) {
      text += static_cast<char>('a' + Below(2));
    }
    return text;
  }

  bool MakeRoom(const BlockCounts& wanted, bool only_windows) {
    const bool made = prefix_.MakeRoom(wanted, only_windows);
    EXPECT_EQ(made, cache_.arena().HasRoom(wanted));
    return made;
  }

  void Begin(std::int32_t slot, Runner& runner) {
    runner.text = RandomText();
    const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, runner.text);
    const PrefixCache::Match match = prefix_.Find(keys, LetterTokens(runner.text));
    prefix_.Attach(slot, keys, match.n_usable, runner.chain);
    Pin(runner);
    runner.done = match.n_usable * kBlockTokens;
    runner.runs = true;
  }

  // Up to three blocks and a half in a step; without room the sequence ends.
  void Advance(std::int32_t slot, Runner& runner) {
    const std::int64_t left = std::ssize(runner.text) * kBlockTokens - runner.done;
    const std::int64_t n = std::min(1 + Below(Below(2) == 0 ? 450 : 40), left);
    const StoredWindows windows = Below(3) == 0 ? StoredWindows::kSeen : StoredWindows::kAll;
    if (n == 0 || !MakeRoom(cache_.Missing(slot, runner.done, n, windows), false)) {
      End(slot, runner);
      return;
    }
    ASSERT_TRUE(cache_.Extend(slot, runner.done, n, windows));
    const std::int64_t first = runner.n_blocks();
    runner.done += n;
    const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, runner.text);
    for (std::int64_t i = first; i < BlockCount(runner.done); ++i) {
      Write(BlockKind::kHistory, slot, i, keys[static_cast<std::size_t>(i)]);
      Write(BlockKind::kWindow, slot, i, keys[static_cast<std::size_t>(i)]);
    }
    cache_.MarkComputed(slot, runner.done);
    prefix_.Commit(slot, keys, LetterTokens(runner.text), runner.n_blocks(), runner.chain);
    Pin(runner);
    cache_.Trim(slot);
  }

  // Writes the content of a block, which follows from the text alone.
  void Write(BlockKind kind, std::int32_t slot, std::int64_t i, const BlockKey& key) {
    const std::int32_t block = cache_.FindBlock(kind, slot, i);
    if (block != kNoBlock) {
      ASSERT_EQ(cache_.arena().uses(kind, block), 1) << "a shared block is written";
      Fill(kind, block, key);
    }
  }
  void Fill(BlockKind kind, std::int32_t block, const BlockKey& key) {
    cache_.backend().Upload(cache_.BlockAddress(kind, block), std::as_bytes(std::span(key.bytes)));
  }
  bool Holds(BlockKind kind, std::int32_t block, const BlockKey& key) const {
    const std::span<const std::byte> expected = std::as_bytes(std::span(key.bytes));
    return std::ranges::equal(
        testing::ReadBack(cache_.backend(), cache_.BlockAddress(kind, block), std::ssize(expected)),
        expected);
  }

  // The copy goes on with another text.
  void Fork(std::int32_t from, const Runner& runner) {
    const auto to = static_cast<std::int32_t>(Below(kSlots));
    Runner& copy = runners_[static_cast<std::size_t>(to)];
    if (copy.runs) {
      return;
    }
    cache_.Fork(from, to);
    prefix_.Share(runner.chain, copy.chain);
    copy.runs = true;
    copy.done = runner.done;
    copy.text = runner.text.substr(0, static_cast<std::size_t>(runner.n_blocks()));
    copy.text += RandomText();
    copy.text.resize(std::min<std::size_t>(copy.text.size(), kMostBlocks));
  }

  void End(std::int32_t slot, Runner& runner) {
    if (Below(2) == 0) {
      prefix_.MarkEnd(runner.chain, std::ssize(runner.chain.entries));
    }
    const std::string committed = runner.Committed();
    cache_.Release(slot);
    prefix_.Unpin(runner.chain);
    runner = {};
    Unpin(committed);
  }

  // A text that came from elsewhere, with all that is missing of it.
  void Insert(const std::string& text) {
    const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, text);
    const auto n_known = static_cast<std::size_t>(prefix_.Find(keys, LetterTokens(text)).n_known);
    PrefixChain parents;
    prefix_.PinKnown(std::span(keys).first(n_known), parents);
    const std::string known = text.substr(0, n_known);
    EraseFromIdle(known);
    inserting_ = known;
    const bool with_window = Below(2) == 0;
    if (n_known < text.size() && MakeRoom({1, with_window ? 1 : 0}, false)) {
      const auto take = [&](BlockKind kind) {
        const std::int32_t block = cache_.arena().Allocate(kind).value();
        Fill(kind, block, keys[n_known]);
        return block;
      };
      const std::int32_t history = take(BlockKind::kHistory);
      prefix_.Insert(keys[n_known], n_known == 0 ? kWalkRoot : keys[n_known - 1],
                     LetterTokens(text.substr(n_known, 1)), history,
                     with_window ? take(BlockKind::kWindow) : kNoBlock);
      idle_.push_back(text.substr(0, n_known + 1));
      texts_[keys[n_known]] = idle_.back();
    }
    inserting_.clear();
    prefix_.Unpin(parents);
    Unpin(known);
  }

  // --- The model ---

  bool IsPinned(const std::string& text) const {
    const auto pins = [&](const Runner& runner) { return runner.Committed().starts_with(text); };
    return std::ranges::any_of(runners_, pins) || inserting_.starts_with(text);
  }
  void EraseFromIdle(const std::string& text) {
    for (std::size_t n = 1; n <= text.size(); ++n) {
      std::erase(idle_, text.substr(0, n));
    }
  }
  void Pin(const Runner& runner) {
    const std::string committed = runner.Committed();
    const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, committed);
    for (std::size_t n = 1; n <= committed.size(); ++n) {
      texts_[keys[n - 1]] = committed.substr(0, n);
    }
    EraseFromIdle(committed);
  }
  // An entry is older than the entries behind it.
  void Unpin(const std::string& text) {
    for (std::size_t n = text.size(); n > 0; --n) {
      if (!IsPinned(text.substr(0, n))) {
        idle_.push_back(text.substr(0, n));
      }
    }
  }

  void Left(const KeptBlock& evicted) {
    const std::string text = texts_.at(evicted.key);
    EXPECT_TRUE(Holds(evicted.kind, evicted.block, evicted.key)) << text;
    EXPECT_EQ(cache_.arena().uses(evicted.kind, evicted.block), 1) << text;
    if (evicted.kind == BlockKind::kHistory) {
      ASSERT_FALSE(idle_.empty());
      EXPECT_EQ(text, idle_.front()) << "not the least recently used";
      EXPECT_FALSE(IsPinned(text));
      EXPECT_FALSE(texts_.contains(LetterKeys(kWalkRoot, text + 'a').back()));
      EXPECT_FALSE(texts_.contains(LetterKeys(kWalkRoot, text + 'b').back()));
      idle_.pop_front();
      texts_.erase(evicted.key);
    }
  }

  void Expect() {
    ASSERT_TRUE(prefix_.IsConsistent());
    ASSERT_EQ(prefix_.n_entries(), std::ssize(texts_));
    ASSERT_EQ(prefix_.Evictable().history, std::ssize(idle_));
    for (const auto& [key, text] : texts_) {
      ASSERT_TRUE(prefix_.Has(key)) << text;
    }
    ExpectUses(BlockKind::kHistory, prefix_.n_entries());
    ExpectUses(BlockKind::kWindow, prefix_.Evictable().window);
    ExpectFind(RandomText());
  }

  // Every use of a block is that of a table or that of the cache; tables have the right blocks.
  void ExpectUses(BlockKind kind, std::int64_t n_cached) {
    std::int64_t n_uses = -n_cached;
    const BlockArena& arena = cache_.arena();
    const std::int64_t n_blocks =
        arena.n_slabs() * (kind == BlockKind::kHistory ? arena.histories_per_slab() : 1);
    for (std::int32_t block = 0; block < n_blocks; ++block) {
      n_uses += arena.uses(kind, block);
    }
    for (std::int32_t slot = 0; slot < kSlots; ++slot) {
      const Runner& runner = runners_[static_cast<std::size_t>(slot)];
      const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, runner.text);
      for (std::int64_t i = 0; i < kMostBlocks; ++i) {
        const std::int32_t block = cache_.FindBlock(kind, slot, i);
        n_uses -= block != kNoBlock ? 1 : 0;
        if (block != kNoBlock && i < runner.n_blocks()) {
          ASSERT_TRUE(Holds(kind, block, keys[static_cast<std::size_t>(i)]));
        }
      }
    }
    ASSERT_EQ(n_uses, 0);
  }

  void ExpectFind(const std::string& text) {
    const std::vector<BlockKey> keys = LetterKeys(kWalkRoot, text);
    const PrefixCache::Match match = prefix_.Find(keys, LetterTokens(text));
    std::int64_t n_known = 0;
    std::int64_t n_usable = 0;
    while (n_known < std::ssize(keys) && texts_.contains(keys[static_cast<std::size_t>(n_known)])) {
      ++n_known;
      bool usable = true;
      for (std::int64_t i = n_known - cache_.BoundaryWindows(n_known); i < n_known; ++i) {
        usable = usable && prefix_.HasWindow(keys[static_cast<std::size_t>(i)]);
      }
      n_usable = usable ? n_known : n_usable;
    }
    ASSERT_EQ(match.n_known, n_known) << text;
    ASSERT_EQ(match.n_usable, n_usable) << text;
  }

  SequenceCache& cache_;
  PrefixCache prefix_;
  std::mt19937 random_;
  std::vector<Runner> runners_;
  std::map<BlockKey, std::string> texts_;  // of the entries
  std::list<std::string> idle_;            // those that nothing pins, the oldest first
  std::string inserting_;
};

class PrefixCacheWalk : public ::testing::TestWithParam<testing::TestMemory> {};

TEST_P(PrefixCacheWalk, AgreesWithItsModel) {
  const std::unique_ptr<Backend> backend = testing::MakeReference(GetParam());
  for (const std::int64_t window : {100, 200}) {
    for (const std::int64_t n_slabs : {8, 14, 60}) {
      CacheShape shape{.keys = {64, 64},
                       .sliding_window = window,
                       .ratios = {4, 0},
                       .max_context = kMostBlocks * kBlockTokens,
                       .n_sequences = kSlots,
                       .memory_bytes = 1};
      const std::int64_t tails = kSlots * 8 * 2 * (2 * 64 + 2 * kIndexDim) * 4;
      shape.memory_bytes = tails + n_slabs * (MakeWindowLayout(shape).bytes + 1'000);
      Result<SequenceCache> cache = SequenceCache::Create(*backend, shape);
      ASSERT_TRUE(cache) << cache.error().message;
      CacheWalk walk(*cache, static_cast<std::uint32_t>(window + n_slabs));
      for (int step = 0; step < 4'000; ++step) {
        walk.Step();
        ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << step;
      }
      EXPECT_GT(walk.n_evicted(), 500);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, PrefixCacheWalk, ::testing::ValuesIn(testing::kTestMemories),
                         [](const auto& memory) { return testing::Name(memory.param); });

}  // namespace
}  // namespace fathom::kv_cache
