// The disk tier on a disk that works: what is stored is found again, nothing else is, and no more
// is kept than allowed.
#include "kv_cache/disk_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <random>
#include <thread>

#include "tests/kv_cache/stored_block.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::kv_cache {
namespace {

using testing::BlockOfNumber;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Load;
using testing::Loaded;
using testing::Store;
using testing::StoredBlock;

class DiskTierTest : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> Open(std::int64_t max_bytes = std::int64_t{1} << 30) {
    return Open(identity_, max_bytes);
  }
  std::unique_ptr<DiskTier> Open(const DiskTierIdentity& identity, std::int64_t max_bytes) {
    Result<std::unique_ptr<DiskTier>> tier = DiskTier::Open(
        {.directory = directory_.path(), .max_bytes = max_bytes}, identity, warnings_.Sink());
    EXPECT_TRUE(tier) << tier.error().message;
    return std::move(*tier);
  }
  StoredBlock Block(std::uint32_t number) const { return BlockOfNumber(identity_, number); }
  std::filesystem::path FilePath(const StoredBlock& block) const {
    return testing::FilePath(directory_.path(), identity_, block);
  }
  // Returns the numbers of the blocks of [0, n) that the tier has.
  std::vector<std::uint32_t> Numbers(const DiskTier& tier, std::uint32_t n) const {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < n; ++i) {
      if (tier.Has(Block(i).key, Block(i).kind)) {
        numbers.push_back(i);
      }
    }
    return numbers;
  }
  void Damage(const StoredBlock& block) const {
    const std::filesystem::path path = FilePath(block);
    std::string bytes = testing::ReadFile(path);
    bytes.back() = static_cast<char>(~bytes.back());
    testing::WriteFile(path, bytes);
  }

  const testing::TemporaryDirectory directory_;
  DiskTierIdentity identity_ = testing::SmallIdentity();
  testing::Warnings warnings_;
};

TEST_F(DiskTierTest, FindsWhatWasStored) {
  const std::unique_ptr<DiskTier> tier = Open();
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(tier->Has(Block(i).key, Block(i).kind));
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kMiss);
    Store(*tier, Block(i));
    EXPECT_TRUE(tier->Has(Block(i).key, Block(i).kind));
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kRight);
  }
  tier->Flush();
  EXPECT_EQ(testing::FilesBelow(directory_.path()).size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kRight);
    Store(*tier, Block(i));  // a second time: nothing happens
  }
  tier->Flush();
  const DiskTierStats stats = tier->stats();
  EXPECT_EQ(stats.files, 20);
  EXPECT_EQ(stats.bytes, 10 * (616 + 3001) + 10 * (616 + 517));
  EXPECT_EQ(stats.stored, 20);
  EXPECT_EQ(stats.loaded, 40);
  EXPECT_EQ(stats.refused + stats.dropped, 0);
  EXPECT_TRUE(stats.is_on);
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(DiskTierTest, HistoryAndWindowOfOneKeyAreTwoBlocks) {
  identity_.window_bytes = identity_.history_bytes;
  const std::unique_ptr<DiskTier> tier = Open();
  StoredBlock history = Block(0);
  StoredBlock window = Block(1);
  window.key = history.key;
  window.parent = history.parent;
  window.tokens = history.tokens;
  Store(*tier, history);
  EXPECT_FALSE(tier->Has(window.key, window.kind));
  Store(*tier, window);
  tier->Flush();
  EXPECT_EQ(Load(*tier, history), Loaded::kRight);
  EXPECT_EQ(Load(*tier, window), Loaded::kRight);
}

TEST_F(DiskTierTest, FindsItAfterARestart) {
  for (std::uint32_t i = 0; i < 10; ++i) {
    Store(*Open(), Block(i));  // closing writes what waits
  }
  const std::unique_ptr<DiskTier> tier = Open();
  EXPECT_EQ(tier->stats().files, 10);
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(tier->Has(Block(i).key, Block(i).kind));
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kRight);
  }
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(DiskTierTest, AnotherParentOrOtherTokensAreNoHit) {
  std::unique_ptr<DiskTier> tier = Open();
  StoredBlock wrong_parent = Block(0);
  wrong_parent.parent.bytes[3] ^= 1u;
  StoredBlock wrong_tokens = Block(1);
  ++wrong_tokens.tokens[64];
  for (const StoredBlock& wrong : {wrong_parent, wrong_tokens}) {
    const StoredBlock right = Block(wrong.kind == BlockKind::kHistory ? 0 : 1);
    Store(*tier, right);
    tier->Flush();
    EXPECT_EQ(Load(*tier, right), Loaded::kRight);
    EXPECT_EQ(Load(*tier, wrong), Loaded::kMiss);
    EXPECT_EQ(Load(*tier, right), Loaded::kMiss);  // refused, hence deleted
    Store(*tier, right);
    tier->Flush();
  }
  EXPECT_EQ(tier->stats().refused, 2);
  EXPECT_EQ(warnings_.texts().size(), 2u);
}

TEST_F(DiskTierTest, ADamagedFileIsDeletedAndWrittenAnew) {
  const std::unique_ptr<DiskTier> tier = Open();
  Store(*tier, Block(0));
  tier->Flush();
  Damage(Block(0));
  EXPECT_EQ(Load(*tier, Block(0)), Loaded::kMiss);
  EXPECT_FALSE(tier->Has(Block(0).key, Block(0).kind));
  EXPECT_FALSE(std::filesystem::exists(FilePath(Block(0))));
  EXPECT_EQ(tier->stats().refused, 1);
  EXPECT_EQ(tier->stats().bytes, 0);
  EXPECT_THAT(warnings_.texts(), ElementsAre(FilePath(Block(0)).string() +
                                             ": its rows are damaged: the block is not used and "
                                             "computed again"));
  Store(*tier, Block(0));
  tier->Flush();
  EXPECT_EQ(Load(*tier, Block(0)), Loaded::kRight);
}

TEST_F(DiskTierTest, ManyDamagedFilesAreFewWarnings) {
  const std::unique_ptr<DiskTier> tier = Open();
  for (std::uint32_t i = 0; i < 150; ++i) {
    Store(*tier, Block(i));
  }
  tier->Flush();
  for (std::uint32_t i = 0; i < 150; ++i) {
    Damage(Block(i));
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kMiss);
    EXPECT_EQ(Load(*tier, Block(i)), Loaded::kMiss);
  }
  EXPECT_EQ(tier->stats().refused, 150);
  EXPECT_THAT(warnings_.texts(),
              ElementsAre(HasSubstr("damaged"), HasSubstr("(2 such files so far)"),
                          HasSubstr("(3 such files so far)"), HasSubstr("(10 such files so far)"),
                          HasSubstr("(100 such files so far)")));
}

TEST_F(DiskTierTest, ForeignFilesAreOneWarning) {
  Store(*Open(), Block(0));
  testing::WriteFile(directory_.path() / "notes.txt", "mine");
  std::filesystem::create_directories(directory_.path() / "music/album");
  testing::WriteFile(FilePath(Block(0)).parent_path() / "notes.txt", "mine");
  const std::unique_ptr<DiskTier> tier = Open(0);
  EXPECT_EQ(tier->stats().files, 0);
  EXPECT_THAT(warnings_.texts(),
              ElementsAre(HasSubstr("3 files or folders are not blocks of Fathom")));
  EXPECT_EQ(testing::FilesBelow(directory_.path()).size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "music/album"));
}

TEST_F(DiskTierTest, AnotherModelsBlocksAreNeverUsed) {
  Store(*Open(), Block(0));
  Store(*Open(), Block(1));
  DiskTierIdentity other = identity_;
  other.fingerprint.bytes[0] ^= 1u;
  {
    const std::unique_ptr<DiskTier> tier = Open(other, 1 << 20);
    EXPECT_EQ(tier->stats().files, 2);
    EXPECT_FALSE(tier->Has(Block(0).key, Block(0).kind));
    EXPECT_EQ(Load(*tier, Block(0)), Loaded::kMiss);
    Store(*tier, Block(2));
  }
  {
    const std::unique_ptr<DiskTier> tier = Open(1 << 20);
    EXPECT_EQ(tier->stats().files, 3);
    EXPECT_THAT(Numbers(*tier, 3), ElementsAre(0, 1));
    EXPECT_EQ(Load(*tier, Block(0)), Loaded::kRight);
  }
  EXPECT_THAT(warnings_.texts(), IsEmpty());
  // Same name with rows of other sizes, as in a folder that was moved.
  DiskTierIdentity larger = identity_;
  larger.history_bytes += 8;
  const std::unique_ptr<DiskTier> tier = Open(larger, 1 << 20);
  StoredBlock block = Block(0);
  block.payload.resize(block.payload.size() + 8);
  EXPECT_EQ(Load(*tier, block), Loaded::kMiss);
  EXPECT_THAT(warnings_.texts(), ElementsAre(HasSubstr("expected a file of 3625 bytes")));
}

TEST_F(DiskTierTest, AnotherModelsOldestBlocksMakeRoom) {
  const std::int64_t pair_bytes = 616 + 3001 + 616 + 517;
  Store(*Open(), Block(0));
  Store(*Open(), Block(1));
  DiskTierIdentity other = identity_;
  other.fingerprint.bytes[0] ^= 1u;
  {
    const std::unique_ptr<DiskTier> tier = Open(other, 2 * pair_bytes);
    Store(*tier, Block(2));
    Store(*tier, Block(3));
    tier->Flush();
    EXPECT_EQ(tier->stats().files, 4);
    Store(*tier, Block(5));
    tier->Flush();
    EXPECT_EQ(tier->stats().files, 4);
  }
  EXPECT_THAT(Numbers(*Open(), 6), ElementsAre(1));
}

TEST_F(DiskTierTest, KeepsTheBlocksUsedLast) {
  const std::int64_t block_bytes = 616 + 3001;
  const auto even = [&](std::uint32_t i) { return Block(2 * i); };
  {
    const std::unique_ptr<DiskTier> tier = Open(4 * block_bytes);
    for (std::uint32_t i = 0; i < 4; ++i) {
      Store(*tier, even(i));
    }
    tier->Flush();
    EXPECT_EQ(Load(*tier, even(0)), Loaded::kRight);  // used: 1 2 3 0
    Store(*tier, even(1));                            // 2 3 0 1
    Store(*tier, even(4));                            // 3 0 1 4
    tier->Flush();
    EXPECT_THAT(Numbers(*tier, 10), ElementsAre(0, 2, 6, 8));
    EXPECT_EQ(tier->stats().bytes, 4 * block_bytes);
    EXPECT_EQ(Load(*tier, even(3)), Loaded::kRight);
    EXPECT_EQ(Load(*tier, even(1)), Loaded::kRight);  // 0 4 3 1
  }
  {
    const std::unique_ptr<DiskTier> tier = Open(3 * block_bytes);  // the order outlives a restart
    EXPECT_THAT(Numbers(*tier, 10), ElementsAre(2, 6, 8));
    Store(*tier, even(5));
    tier->Flush();
    EXPECT_THAT(Numbers(*tier, 12), ElementsAre(2, 6, 10));
    EXPECT_EQ(testing::FilesBelow(directory_.path()).size(), 3u);
  }
  const std::unique_ptr<DiskTier> tier = Open(block_bytes - 1);  // no room for any
  Store(*tier, even(6));
  tier->Flush();
  EXPECT_EQ(tier->stats().dropped, 1);
  EXPECT_TRUE(tier->stats().is_on);
  EXPECT_THAT(testing::FilesBelow(directory_.path()), IsEmpty());
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

TEST_F(DiskTierTest, AFileThatVanishedIsAMiss) {
  const std::unique_ptr<DiskTier> tier = Open();
  Store(*tier, Block(0));
  tier->Flush();
  Open(0);  // another process, which deletes it
  EXPECT_TRUE(tier->Has(Block(0).key, Block(0).kind));
  EXPECT_EQ(Load(*tier, Block(0)), Loaded::kMiss);
  EXPECT_FALSE(tier->Has(Block(0).key, Block(0).kind));
  Store(*tier, Block(0));
  tier->Flush();
  EXPECT_EQ(Load(*tier, Block(0)), Loaded::kRight);
  EXPECT_EQ(tier->stats().refused, 0);
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

// Tensor ranks all store the same blocks: each file is written once.
TEST_F(DiskTierTest, TheSameOnOneDirectoryIsWrittenOnce) {
  constexpr std::uint32_t kBlocks = 30;
  const std::array tiers = {Open(), Open(), Open()};
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    for (const std::unique_ptr<DiskTier>& tier : tiers) {
      Store(*tier, Block(i));
    }
  }
  std::int64_t n_stored = 0;
  for (const std::unique_ptr<DiskTier>& tier : tiers) {
    tier->Flush();
    const DiskTierStats stats = tier->stats();
    n_stored += stats.stored;
    EXPECT_EQ(stats.files, kBlocks);
    EXPECT_EQ(stats.dropped, 0);
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      EXPECT_EQ(Load(*tier, Block(i)), Loaded::kRight);
    }
  }
  EXPECT_EQ(n_stored, kBlocks);
  EXPECT_EQ(testing::FilesBelow(directory_.path()).size(), kBlocks);
  // A file that one tier finds damaged is gone for all, and the first to need it writes it again.
  Damage(Block(3));
  EXPECT_EQ(Load(*tiers[0], Block(3)), Loaded::kMiss);
  for (const std::unique_ptr<DiskTier>& tier : tiers) {
    tier->Discard(Block(3).key, Block(3).kind);
    Store(*tier, Block(3));
    tier->Flush();
    EXPECT_EQ(Load(*tier, Block(3)), Loaded::kRight);
  }
}

// Stages store different files: together they keep to the size of each.
TEST_F(DiskTierTest, OthersFilesCount) {
  constexpr std::int64_t kMost = 40 * (616 + 3001);
  identity_.window_bytes = identity_.history_bytes;
  DiskTierIdentity other = identity_;
  other.fingerprint.bytes[0] ^= 1u;
  const std::array tiers = {Open(identity_, kMost), Open(other, kMost)};
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (const std::unique_ptr<DiskTier>& tier : tiers) {
      Store(*tier, Block(i));
      tier->Flush();
    }
    std::int64_t bytes = 0;
    for (const std::filesystem::path& file : testing::FilesBelow(directory_.path())) {
      bytes += static_cast<std::int64_t>(std::filesystem::file_size(file));
    }
    ASSERT_LE(bytes, kMost * 10 / 8) << i;
  }
  for (const std::unique_ptr<DiskTier>& tier : tiers) {
    EXPECT_TRUE(tier->Has(Block(99).key, Block(99).kind));
    EXPECT_FALSE(tier->Has(Block(0).key, Block(0).kind));
  }
}

// Two tiers of the same model and one of another, all with room for a few blocks only, so that each
// deletes and rewrites what the others read.
TEST_F(DiskTierTest, SeveralOnOneDirectory) {
  DiskTierIdentity other = identity_;
  other.fingerprint.bytes[0] ^= 1u;
  const auto use = [&](const DiskTierIdentity& identity, std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::unique_ptr<DiskTier> tier = Open(identity, 6 * (616 + 3001));
    std::int64_t n_right = 0;
    for (int step = 0; step < 1500; ++step) {
      const StoredBlock block = Block(static_cast<std::uint32_t>(random() % 12));
      if (random() % 2 == 0) {
        Store(*tier, block);
        continue;
      }
      const Loaded loaded = Load(*tier, block);
      EXPECT_NE(loaded, Loaded::kWrong);
      n_right += loaded == Loaded::kRight ? 1 : 0;
    }
    tier->Flush();
    EXPECT_TRUE(tier->stats().is_on);
    EXPECT_EQ(tier->stats().refused, 0);
    EXPECT_GT(n_right, 100);
  };
  {
    const std::jthread one([&] { use(identity_, 1); });
    const std::jthread two([&] { use(identity_, 2); });
    const std::jthread three([&] { use(other, 3); });
    const std::jthread four([&] {
      for (int i = 0; i < 50; ++i) {
        Open(1 << 20);  // would remove what it takes for abandoned
      }
    });
  }
  EXPECT_THAT(warnings_.texts(), IsEmpty());
}

// Holds the tier's thread in a warning about a damaged block until it is let go.
class HeldDiskTierTest : public DiskTierTest {
 protected:
  void OpenAndHold() {
    Store(*Open(), Block(1));
    Damage(Block(1));
    Result<std::unique_ptr<DiskTier>> tier =
        DiskTier::Open({.directory = directory_.path()}, identity_, [this](const std::string&) {
          held_.count_down();
          let_go_.wait();
        });
    ASSERT_TRUE(tier);
    tier_ = std::move(*tier);
    const StoredBlock block = Block(1);
    tier_->StartLoad(1, block, unused_);
    held_.wait();
  }

  std::vector<std::byte> unused_ = std::vector<std::byte>(517);
  std::latch held_{1};
  std::latch let_go_{1};
  std::unique_ptr<DiskTier> tier_;
};

TEST_F(HeldDiskTierTest, DropsWhatIsTooMuchToWait) {
  identity_.history_bytes = std::int64_t{1} << 20;
  OpenAndHold();
  const std::int64_t n_fit = DiskTier::kMostWaitingBytes / identity_.history_bytes;
  StoredBlock block = Block(0);
  std::vector<BlockKey> keys;
  for (std::int64_t i = 0; i < n_fit + 5; ++i) {
    block.key.bytes[0] = static_cast<std::uint8_t>(i);
    keys.push_back(block.key);
    Store(*tier_, block);
    EXPECT_EQ(tier_->Has(block.key, block.kind), i < n_fit) << i;
  }
  Store(*tier_, Block(3));  // small, yet there is no room at all
  EXPECT_EQ(tier_->stats().dropped, 6);
  let_go_.count_down();
  tier_->Flush();
  EXPECT_EQ(tier_->stats().stored, n_fit);
  EXPECT_EQ(tier_->stats().files, n_fit);
  std::vector<DiskTier::FinishedLoad> finished;
  tier_->TakeFinished(finished);
  EXPECT_EQ(finished.size(), 1u);  // the one that held the thread
  block.key = keys.back();
  Store(*tier_, block);  // there is room again
  EXPECT_EQ(Load(*tier_, block), Loaded::kRight);
}

TEST_F(HeldDiskTierTest, LoadsFromMemoryWhatWaits) {
  OpenAndHold();
  const StoredBlock block = Block(0);
  StoredBlock wrong = block;
  wrong.tokens[0] ^= 1;
  Store(*tier_, block);
  std::vector<std::byte> payload(block.payload.size());
  std::vector<std::byte> wrong_payload(block.payload.size());
  tier_->StartLoad(2, block, payload);
  tier_->StartLoad(3, wrong, wrong_payload);
  let_go_.count_down();
  std::vector<DiskTier::FinishedLoad> finished;
  while (finished.size() < 3) {
    tier_->WaitForFinished(std::chrono::seconds(10));
    tier_->TakeFinished(finished);
  }
  EXPECT_EQ(payload, block.payload);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(finished[i].id, i + 1);
    EXPECT_EQ(finished[i].ok, i == 1);
  }
}

TEST_F(HeldDiskTierTest, LoadsGoBeforeStores) {
  const StoredBlock first = Block(1);
  const StoredBlock second = Block(3);
  for (const StoredBlock& block : {first, second}) {
    Store(*Open(), block);
    Damage(block);
  }
  std::vector<std::size_t> files_seen;  // at each warning, by the thread
  tier_ = std::move(
      *DiskTier::Open({.directory = directory_.path()}, identity_, [&](const std::string&) {
        files_seen.push_back(testing::FilesBelow(directory_.path()).size());
        held_.count_down(files_seen.size() == 1 ? 1 : 0);
        let_go_.wait();
      }));
  tier_->StartLoad(1, first, unused_);
  held_.wait();
  for (std::uint32_t i = 10; i < 20; ++i) {
    Store(*tier_, Block(i));
  }
  tier_->StartLoad(2, second, unused_);
  let_go_.count_down();
  std::vector<DiskTier::FinishedLoad> finished;
  while (finished.size() < 2) {
    tier_->WaitForFinished(std::chrono::seconds(10));
    tier_->TakeFinished(finished);
  }
  tier_.reset();
  EXPECT_THAT(files_seen, ElementsAre(1, 0));  // a warning follows the deletion; no store yet
  EXPECT_EQ(Numbers(*Open(), 20).size(), 10u);
}

TEST_F(HeldDiskTierTest, ClosingWritesWhatWaitsAndGivesUpLoads) {
  OpenAndHold();
  for (std::uint32_t i = 10; i < 20; ++i) {
    Store(*tier_, Block(i));
  }
  const StoredBlock block = Block(10);
  std::vector<std::byte> payload(block.payload.size(), std::byte{7});
  tier_->StartLoad(2, block, payload);
  std::jthread closing([&] { tier_.reset(); });
  let_go_.count_down();
  closing.join();
  EXPECT_EQ(Numbers(*Open(), 20).size(), 10u);
}

TEST_F(DiskTierTest, WaitingEndsWithoutALoad) {
  const std::unique_ptr<DiskTier> tier = Open();
  tier->WaitForFinished(std::chrono::milliseconds(1));
  std::vector<DiskTier::FinishedLoad> finished;
  tier->TakeFinished(finished);
  EXPECT_THAT(finished, IsEmpty());
  tier->Flush();
}

using DiskTierDeathTest = DiskTierTest;

TEST_F(DiskTierDeathTest, SizesAreThoseOfTheIdentity) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  StoredBlock block = Block(0);
  block.payload.pop_back();
  EXPECT_DEATH(Store(*Open(), block), "a payload of another size than the identity says");
  block = Block(0);
  block.tokens.pop_back();
  EXPECT_DEATH(Store(*Open(), block), "the tokens of a block are not one block");
}

}  // namespace
}  // namespace fathom::kv_cache
