// The disk tier when things go wrong: killed while it writes, no room, no permission.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "kv_cache/disk_tier.h"
#include "tests/kv_cache/stored_block.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::kv_cache {
namespace {

namespace fs = std::filesystem;
using testing::BlockOfNumber;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Load;
using testing::Loaded;
using testing::Store;
using testing::StoredBlock;

Result<std::unique_ptr<DiskTier>> Open(const fs::path& directory, const DiskTierIdentity& identity,
                                       testing::Warnings& warnings) {
  return DiskTier::Open({.directory = directory, .max_bytes = 4 << 20}, identity, warnings.Sink());
}

// Runs `body` in a process of its own, so that what it does to the process ends with it. The
// failures of the child are printed and become one of the parent.
template <class Body>
void InAnotherProcess(const Body& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "see the failures above";
}

// Writes blocks until killed; signals `ready` at the start.
[[noreturn]] void WriteForever(DiskTier& tier, const std::vector<StoredBlock>& blocks, int ready,
                               std::mt19937 random) {
  for (;;) {
    for (int i = 0; i < 10; ++i) {
      Store(tier, blocks[random() % blocks.size()]);
    }
    tier.Flush();
    if (ready >= 0 && ::write(ready, "x", 1) == 1) {
      ready = -1;
    }
  }
}

// Room for half of the blocks, so that it also deletes at all times.
TEST(DiskTierFailure, KilledWhileItWrites) {
  constexpr int kRounds = 40;
  const testing::TemporaryDirectory directory;
  const DiskTierIdentity identity = {
      .fingerprint = HashBytes({}), .history_bytes = 200'003, .window_bytes = 70'001};
  std::vector<StoredBlock> blocks;
  for (std::uint32_t number = 0; number < 60; ++number) {
    blocks.push_back(BlockOfNumber(identity, number));
  }
  testing::Warnings warnings;
  std::mt19937 random(5);
  int n_right = 0;
  int n_unfinished = 0;
  for (int round = 0; round < kRounds; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      WriteForever(**Open(directory.path(), identity, warnings), blocks, ready[1], random);
    }
    char begun = 0;
    ASSERT_EQ(::read(ready[0], &begun, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(ready[0]);
    ::close(ready[1]);
    const auto count = [&] { return std::ssize(testing::FilesBelow(directory.path())); };
    const std::int64_t n_before = count();
    const std::unique_ptr<DiskTier> tier = std::move(*Open(directory.path(), identity, warnings));
    EXPECT_EQ(tier->stats().files, count());
    n_unfinished += static_cast<int>(n_before - count());
    for (const StoredBlock& block : blocks) {
      const bool is_listed = tier->Has(block.key, block.kind);
      ASSERT_EQ(Load(*tier, block), is_listed ? Loaded::kRight : Loaded::kMiss);
      n_right += is_listed ? 1 : 0;
    }
  }
  EXPECT_GT(n_right, kRounds);
  EXPECT_THAT(warnings.texts(), IsEmpty());
  RecordProperty("unfinished_files", n_unfinished);
}

// Simulates a power cut: names whose bytes never reached the disk.
TEST(DiskTierFailure, FilesOfZeros) {
  const testing::TemporaryDirectory directory;
  const DiskTierIdentity identity = testing::SmallIdentity();
  testing::Warnings warnings;
  const StoredBlock empty = BlockOfNumber(identity, 0);
  const StoredBlock zeros = BlockOfNumber(identity, 2);
  Store(**Open(directory.path(), identity, warnings), empty);
  Store(**Open(directory.path(), identity, warnings), zeros);
  testing::WriteFile(FilePath(directory.path(), identity, empty), "");
  testing::WriteFile(FilePath(directory.path(), identity, zeros), std::string(616 + 3001, '\0'));
  const std::unique_ptr<DiskTier> tier = std::move(*Open(directory.path(), identity, warnings));
  EXPECT_EQ(Load(*tier, empty), Loaded::kMiss);
  EXPECT_EQ(Load(*tier, zeros), Loaded::kMiss);
  EXPECT_EQ(tier->stats().refused, 2);
}

bool MountSmallDisk(const fs::path& directory) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=128k") == 0;
}

void AllowSmallFilesOnly() {
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  const rlimit limit = {.rlim_cur = 10'000, .rlim_max = 10'000};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// Expects that two small blocks can be written to `directory`, and less than ten large ones.
void ExpectToTurnOff(const fs::path& directory, const char* reason) {
  const DiskTierIdentity identity = {
      .fingerprint = HashBytes({}), .history_bytes = 40'001, .window_bytes = 517};
  const std::vector<StoredBlock> small = {BlockOfNumber(identity, 1), BlockOfNumber(identity, 3)};
  testing::Warnings warnings;
  {
    const std::unique_ptr<DiskTier> tier = std::move(*Open(directory, identity, warnings));
    for (const StoredBlock& block : small) {
      Store(*tier, block);
    }
    for (std::uint32_t number = 0; number < 20; number += 2) {
      Store(*tier, BlockOfNumber(identity, number));
    }
    tier->Flush();
    const DiskTierStats stats = tier->stats();
    EXPECT_FALSE(stats.is_on);
    EXPECT_GE(stats.stored, 2);
    EXPECT_EQ(stats.stored + stats.dropped, 12);
    EXPECT_EQ(std::ssize(testing::FilesBelow(directory)), stats.stored);
    EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr(reason)));
    Store(*tier, BlockOfNumber(identity, 5));
    tier->Flush();
    const StoredBlock last = BlockOfNumber(identity, 18);
    EXPECT_FALSE(tier->Has(last.key, last.kind));
    for (const StoredBlock& block : small) {
      EXPECT_EQ(Load(*tier, block), Loaded::kRight);
    }
    EXPECT_EQ(tier->stats().stored, stats.stored);
  }
  EXPECT_EQ(warnings.texts().size(), 1u);
  const std::unique_ptr<DiskTier> again = std::move(*Open(directory, identity, warnings));
  EXPECT_TRUE(again->stats().is_on);
  for (const StoredBlock& block : small) {
    EXPECT_EQ(Load(*again, block), Loaded::kRight);
  }
  EXPECT_EQ(warnings.texts().size(), 1u);
}

// On a file system of 128 KiB where this process may mount one, otherwise as the next test.
TEST(DiskTierFailure, AFullDiskTurnsItOff) {
  const testing::TemporaryDirectory directory;
  InAnotherProcess([&] {
    if (MountSmallDisk(directory.path())) {
      ExpectToTurnOff(directory.path(), "No space left on device; no more blocks are written");
    } else {
      AllowSmallFilesOnly();
      ExpectToTurnOff(directory.path(), "File too large; no more blocks are written");
    }
  });
}

TEST(DiskTierFailure, AWriteThatFailsTurnsItOff) {
  const testing::TemporaryDirectory directory;
  InAnotherProcess([&] {
    AllowSmallFilesOnly();
    ExpectToTurnOff(directory.path(), "File too large; no more blocks are written");
  });
}

// A server with many connections may have no descriptor left for a while.
TEST(DiskTierFailure, WithoutADescriptorItMissesAndDropsButGoesOn) {
  const testing::TemporaryDirectory directory;
  InAnotherProcess([&] {
    const DiskTierIdentity identity = testing::SmallIdentity();
    const StoredBlock first = BlockOfNumber(identity, 1);
    const StoredBlock second = BlockOfNumber(identity, 2);
    testing::Warnings warnings;
    const std::unique_ptr<DiskTier> tier = std::move(*Open(directory.path(), identity, warnings));
    Store(*tier, first);
    tier->Flush();
    rlimit usual = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
    const rlimit none = {.rlim_cur = 0, .rlim_max = usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(Load(*tier, first), Loaded::kMiss);
    Store(*tier, second);
    tier->Flush();
    EXPECT_EQ(tier->stats().dropped, 1);
    EXPECT_FALSE(tier->Has(second.key, second.kind));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    Store(*tier, second);
    tier->Flush();
    EXPECT_EQ(Load(*tier, first), Loaded::kRight);
    EXPECT_EQ(Load(*tier, second), Loaded::kRight);
    EXPECT_EQ(tier->stats().refused, 0);
    EXPECT_TRUE(tier->stats().is_on);
    EXPECT_THAT(warnings.texts(), IsEmpty());
  });
}

// Root may write everywhere: becomes a user who may not, and who owns `directory`.
void BecomeAnOrdinaryUser(const fs::path& directory) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(directory.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(::setresgid(kNobody, kNobody, kNobody), 0);
    ASSERT_EQ(::setresuid(kNobody, kNobody, kNobody), 0);
  }
}

TEST(DiskTierFailure, ADirectoryThatBecomesReadOnly) {
  const testing::TemporaryDirectory directory;
  InAnotherProcess([&] {
    BecomeAnOrdinaryUser(directory.path());
    const DiskTierIdentity identity = testing::SmallIdentity();
    const StoredBlock first = BlockOfNumber(identity, 1);
    const fs::path key_folder = FilePath(directory.path(), identity, first).parent_path();
    const fs::path folder = key_folder.parent_path();
    testing::Warnings warnings;
    std::unique_ptr<DiskTier> tier = std::move(*Open(directory.path(), identity, warnings));
    Store(*tier, first);
    tier->Flush();
    for (const fs::path& path : {key_folder, folder, directory.path()}) {
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_exec);
    }
    for (std::uint32_t number = 2; number < 10; ++number) {
      Store(*tier, BlockOfNumber(identity, number));
    }
    tier->Flush();
    EXPECT_FALSE(tier->stats().is_on);
    EXPECT_EQ(tier->stats().stored, 1);
    EXPECT_EQ(tier->stats().dropped, 8);
    EXPECT_EQ(Load(*tier, first), Loaded::kRight);
    tier.reset();
    EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("Permission denied; no more blocks")));

    const auto again = Open(directory.path(), identity, warnings);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kIo);
    EXPECT_EQ(again.error().message,
              directory.path().string() + ": cannot write blocks there: Permission denied");
    for (const fs::path& path : {directory.path(), folder, key_folder}) {
      fs::permissions(path, fs::perms::owner_all);
    }
  });
}

TEST(DiskTierFailure, AFileThatCannotBeDeletedTurnsItOff) {
  const testing::TemporaryDirectory directory;
  InAnotherProcess([&] {
    BecomeAnOrdinaryUser(directory.path());
    const DiskTierIdentity identity = testing::SmallIdentity();
    const StoredBlock block = BlockOfNumber(identity, 1);
    testing::Warnings warnings;
    Store(**Open(directory.path(), identity, warnings), block);
    const fs::path folder = FilePath(directory.path(), identity, block).parent_path();
    fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
    const auto tier =
        DiskTier::Open({.directory = directory.path(), .max_bytes = 0}, identity, warnings.Sink());
    ASSERT_TRUE(tier);
    EXPECT_FALSE((*tier)->stats().is_on);
    EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("cannot delete: Permission denied; no")));
    fs::permissions(folder, fs::perms::owner_all);
  });
}

TEST(DiskTierFailure, ADirectoryThatCannotBeMade) {
  const testing::TemporaryDirectory directory;
  testing::WriteFile(directory.path() / "file", "");
  testing::Warnings warnings;
  for (const fs::path& path :
       {directory.path() / "file", directory.path() / "file/below", fs::path("/proc/fathom")}) {
    const auto tier = Open(path, testing::SmallIdentity(), warnings);
    ASSERT_FALSE(tier);
    EXPECT_EQ(tier.error().code, ErrorCode::kIo);
    EXPECT_THAT(tier.error().message,
                HasSubstr(path.string() + ": cannot make a directory for blocks: "));
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

}  // namespace
}  // namespace fathom::kv_cache
