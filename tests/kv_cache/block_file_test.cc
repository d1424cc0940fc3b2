// The file of one block: what was written is read, and nothing else ever.
#include "kv_cache/block_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "tests/kv_cache/stored_block.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::kv_cache {
namespace {

using testing::BlockOfNumber;
using ::testing::HasSubstr;
using testing::StoredBlock;

class BlockFile : public ::testing::Test {
 protected:
  Result<bool> Write() const {
    return WriteBlockFile(temporary_, path_, identity_.fingerprint, block_, block_.payload);
  }
  Status Read() { return Read(identity_.fingerprint, block_); }
  Status Read(const BlockKey& fingerprint, const KeptBlock& expected) {
    std::vector<std::byte> payload(block_.payload.size());
    Status read = ReadBlockFile(path_, fingerprint, expected, payload);
    EXPECT_EQ(payload == block_.payload && read.has_value(), read.has_value());
    return read;
  }
  std::string ReadError() {
    const Status read = Read();
    return read ? "it was read" : read.error().message;
  }

  const testing::TemporaryDirectory directory_;
  const std::string path_ = (directory_.path() / "block").string();
  const std::string temporary_ = (directory_.path() / "unfinished").string();
  const DiskTierIdentity identity_ = testing::SmallIdentity();
  const StoredBlock block_ = BlockOfNumber(identity_, 2);
};

TEST_F(BlockFile, IsReadAsWritten) {
  ASSERT_TRUE(Write());
  EXPECT_TRUE(Read());
  EXPECT_FALSE(std::filesystem::exists(temporary_));
  EXPECT_EQ(std::filesystem::file_size(path_), 616 + block_.payload.size());
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

// The picture at the top of block_file.h, byte for byte.
TEST_F(BlockFile, LooksLikeItsPicture) {
  ASSERT_TRUE(Write());
  std::string picture("FATHOMKV\1\0\0\0\0\0\0\0\xb9\x0b\0\0\0\0\0\0", 24);
  const auto add = [&](const void* data, std::size_t n_bytes) {
    picture.append(static_cast<const char*>(data), n_bytes);
  };
  add(identity_.fingerprint.bytes.data(), 16);
  add(block_.key.bytes.data(), 16);
  add(block_.parent.bytes.data(), 16);
  add(block_.tokens.data(), 512);
  add(HashBytes(block_.payload).bytes.data(), 16);
  add(HashBytes(std::as_bytes(std::span(picture))).bytes.data(), 16);
  ASSERT_EQ(picture.size(), 616u);
  add(block_.payload.data(), block_.payload.size());
  EXPECT_EQ(testing::ReadFile(path_), picture);
}

TEST_F(BlockFile, EveryDamagedByteIsNoticed) {
  ASSERT_TRUE(Write());
  const std::string whole = testing::ReadFile(path_);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t i, int byte) {
    file.seekp(static_cast<std::streamoff>(i)).put(static_cast<char>(byte)).flush();
    ASSERT_TRUE(file) << i;
  };
  std::mt19937 random(1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    put(i, whole[i] ^ (1 << random() % 8));
    const Status read = Read();
    put(i, whole[i]);
    ASSERT_FALSE(read) << i;
    ASSERT_EQ(read.error().code, ErrorCode::kInvalidData);
    const char* what = i < 8     ? "found another file"
                       : i < 12  ? "another version of the format"
                       : i < 616 ? "its header is damaged"
                                 : "its rows are damaged";
    ASSERT_THAT(read.error().message, HasSubstr(what)) << i;
  }
  EXPECT_TRUE(Read());
}

TEST_F(BlockFile, EveryOtherLengthIsNoticed) {
  ASSERT_TRUE(Write());
  const std::string whole = testing::ReadFile(path_);
  std::filesystem::resize_file(path_, whole.size() + 1);
  EXPECT_THAT(ReadError(), HasSubstr("expected a file of 3617 bytes, found 3618"));
  for (std::size_t length = whole.size(); length-- > 0;) {
    std::filesystem::resize_file(path_, length);
    ASSERT_THAT(ReadError(), HasSubstr("expected a file of 3617 bytes")) << length;
  }
  testing::WriteFile(path_, whole);
  EXPECT_TRUE(Read());
}

TEST_F(BlockFile, OfAnythingElseIsRefused) {
  ASSERT_TRUE(Write());
  std::vector<BlockKey> fingerprints(5, identity_.fingerprint);
  std::vector<KeptBlock> wrong(5, block_);
  fingerprints[0].bytes[15] ^= 1u;
  wrong[1].key.bytes[0] ^= 1u;
  wrong[2].parent.bytes[7] ^= 1u;
  ++wrong[3].tokens.back();
  wrong[4].kind = BlockKind::kWindow;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const Status read = Read(fingerprints[i], wrong[i]);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidData);
    EXPECT_THAT(read.error().message, HasSubstr("holds another block than its name says"));
  }
  EXPECT_TRUE(Read());
}

TEST_F(BlockFile, WhatIsNoFile) {
  EXPECT_EQ(Read().error().code, ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Read().error().code, ErrorCode::kInvalidData);  // at once, though nothing writes
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(Read());
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("elsewhere", path_);
  EXPECT_FALSE(Read());
}

TEST_F(BlockFile, AWriteThatFailsLeavesNothing) {
  std::filesystem::create_directory(path_);
  const Result<bool> written = Write();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_FALSE(std::filesystem::exists(temporary_));
}

TEST_F(BlockFile, WhatAnotherHasWrittenIsNotWrittenAgain) {
  EXPECT_EQ(Write().value(), true);
  struct stat first = {};
  ASSERT_EQ(::stat(path_.c_str(), &first), 0);
  EXPECT_EQ(Write().value(), false);
  struct stat second = {};
  ASSERT_EQ(::stat(path_.c_str(), &second), 0);
  EXPECT_EQ(second.st_ino, first.st_ino);
  std::filesystem::resize_file(path_, 100);
  EXPECT_EQ(Write().value(), true);
  EXPECT_TRUE(Read());
}

TEST_F(BlockFile, OfManyAtOnceOneWrites) {
  constexpr int kWriters = 6;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> n_written = 0;
    {
      std::latch start(kWriters);
      std::vector<std::jthread> writers;
      for (int i = 0; i < kWriters; ++i) {
        writers.emplace_back([&] {
          start.arrive_and_wait();
          const Result<bool> written = Write();
          EXPECT_TRUE(written) << written.error().message;
          n_written += written && *written ? 1 : 0;
        });
      }
    }
    ASSERT_EQ(n_written, 1);
    ASSERT_TRUE(Read());
    ASSERT_FALSE(std::filesystem::exists(temporary_));
    std::filesystem::remove(path_);
  }
}

TEST_F(BlockFile, WhatAnotherDoesNotFinishIsWritten) {
  // Simulates a writer that has died.
  testing::WriteFile(temporary_, "half");
  EXPECT_EQ(Write().value(), true);
  EXPECT_TRUE(Read());
  std::filesystem::remove(path_);
  // Simulates a writer that fails while this one waits.
  testing::WriteFile(temporary_, "half");
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  {
    const std::jthread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::filesystem::remove(temporary_);
      ::close(fd);
    });
    EXPECT_EQ(Write().value(), true);
  }
  EXPECT_TRUE(Read());
}

TEST_F(BlockFile, OneThatHangsIsNotWaitedForLong) {
  testing::WriteFile(temporary_, "half");
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const Result<bool> written = Write();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(testing::ReadFile(temporary_), "half");
  EXPECT_FALSE(std::filesystem::exists(path_));
  ::close(fd);
}

TEST_F(BlockFile, OnlyAbandonedFilesAreRemoved) {
  testing::WriteFile(temporary_, "half");
  const int fd = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  RemoveIfAbandoned(temporary_);
  EXPECT_TRUE(std::filesystem::exists(temporary_));
  ::close(fd);
  RemoveIfAbandoned(temporary_);
  EXPECT_FALSE(std::filesystem::exists(temporary_));
  RemoveIfAbandoned(temporary_);
}

}  // namespace
}  // namespace fathom::kv_cache
