// Reads of blocks: every byte of the file, or an error that names the place.
#include "checkpoint/block_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/pages.h"
#include "checkpoint/file_block_reader.h"
#include "tests/checkpoint/memory_reader.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::MemoryReader;

void ExpectAllRead(MemoryReader& reader, std::int64_t offset, std::int64_t bytes,
                   std::int64_t n_needed) {
  std::vector<std::byte> to(static_cast<std::size_t>(bytes));
  const Status read = ReadBlocks(reader, 0, offset, to, n_needed);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(
      std::memcmp(to.data(), reader.bytes_.data() + offset, static_cast<std::size_t>(n_needed)), 0);
}

TEST(ReadBlocks, ReadsUpToTheEnd) {
  MemoryReader reader(10'000);
  ExpectAllRead(reader, 4096, 4096, 4096);
  ExpectAllRead(reader, 8192, 4096, 10'000 - 8192);
  EXPECT_EQ(reader.n_calls_, 2);
}

TEST(ReadBlocks, GoesOnAfterShortAndInterruptedReads) {
  MemoryReader reader(100'000, [](int call, std::int64_t, std::int64_t n) {
    return call % 2 == 0 ? -EINTR : std::min<std::int64_t>(n, 1 + 997 * (call % 3));
  });
  ExpectAllRead(reader, 4096, 81'920, 81'920);
}

TEST(ReadBlocks, TriesAgainInSmallPieces) {
  MemoryReader reader(1 << 20,
                      [](int call, std::int64_t, std::int64_t n) { return call < 2 ? -EIO : n; });
  ExpectAllRead(reader, 0, 1 << 20, 1 << 20);
  EXPECT_EQ(reader.n_calls_, 2 + 8) << "pieces of 128 KiB";
}

TEST(ReadBlocks, NamesThePlaceThatCannotBeRead) {
  MemoryReader reader(1 << 20, [](int, std::int64_t offset, std::int64_t n) {
    return offset + n > 300'000 ? -EIO : n;
  });
  std::vector<std::byte> to(1 << 20);
  const Status read = ReadBlocks(reader, 0, 0, to, std::ssize(to));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_EQ(read.error().message,
            "storage_error: shard, offset 262144: Input/output error (errno 5)");
  EXPECT_EQ(reader.n_calls_, 2 + 2 + 2) << "twice in one piece or in small ones, then the end";
}

TEST(ReadBlocks, NamesATruncatedShard) {
  MemoryReader reader(10'000);
  std::vector<std::byte> to(8192);
  const Status read = ReadBlocks(reader, 0, 8192, to, 5000);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidData);
  EXPECT_EQ(read.error().message,
            "shard: shard truncated: expected bytes 8192 to 13191, found the end at 10000");
}

// --- Files ---

class FileReader : public ::testing::Test {
 protected:
  void SetUp() override {
    checkpoint_ = *Checkpoint::Open(testing::ProjectPath("models/fairy"));
    memory_ = *PageMemory::Allocate(std::int64_t{4} << 20);
  }
  std::span<const std::byte> Mapped(std::size_t file) const { return checkpoint_.Memory()[file]; }

  Checkpoint checkpoint_;
  PageMemory memory_;
};

TEST_F(FileReader, GivesTheBytesOfTheMapping) {
  const auto opened = FileBlockReader::Open(checkpoint_, {});
  ASSERT_TRUE(opened);
  FileBlockReader& reader = **opened;
  for (const bool direct : {true, false}) {
    reader.SetDirect(direct);
    for (std::size_t file = 0; file < checkpoint_.shards().size(); ++file) {
      const std::span<const std::byte> all = Mapped(file);
      for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{4096}, std::int64_t{5000}}) {
        const std::int64_t left = std::ssize(all) - offset;
        const std::int64_t n = std::min<std::int64_t>(left, 1 << 20);
        // With blocks that end behind the end of the file.
        const auto to = memory_.bytes().first(static_cast<std::size_t>((n + 4095) / 4096 * 4096));
        const Status read = ReadBlocks(reader, file, offset, to, n);
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(std::memcmp(to.data(), all.data() + offset, static_cast<std::size_t>(n)), 0);
      }
    }
  }
}

TEST_F(FileReader, KnowsWhatThePageCacheHas) {
  const testing::TemporaryDirectory directory;
  std::filesystem::copy(testing::ProjectPath("models/fairy"), directory.path() / "copy");
  std::unique_ptr<FileBlockReader> reader;
  {
    const Checkpoint copy = *Checkpoint::Open(directory.path() / "copy");
    reader = *FileBlockReader::Open(copy, {});
    TouchPages(copy.Memory()[0]);
    // Pages that are mapped stay.
    reader->DropPages(0, 0, 65536);
    EXPECT_TRUE(reader->MayHavePages(0, 0, 65536));
  }
  if (!reader->IsDirect()) GTEST_SKIP() << "files in memory: their pages are the files";
  // A direct read writes new pages to the disk first; the system may drop written ones late.
  ASSERT_GT(reader->Read(0, 0, memory_.bytes().first(65536)), 0);
  bool has_pages = true;
  for (int i = 0; i < 500 && has_pages; ++i) {
    reader->DropPages(0, 0, 65536);
    has_pages = reader->MayHavePages(0, 0, 65536);
    if (has_pages) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(has_pages);
}

TEST_F(FileReader, FindsThePlaceOfATensor) {
  for (const Checkpoint::Tensor& tensor : checkpoint_.tensors()) {
    const auto place = checkpoint_.Locate(tensor.view.bytes.data());
    ASSERT_TRUE(place);
    EXPECT_EQ(place->shard, tensor.shard);
    EXPECT_EQ(Mapped(place->shard).data() + place->offset, tensor.view.bytes.data());
  }
  const std::byte elsewhere{};
  EXPECT_FALSE(checkpoint_.Locate(&elsewhere));
}

TEST_F(FileReader, SaysThatAShardHasChanged) {
  const testing::TemporaryDirectory directory;
  std::filesystem::copy(testing::ProjectPath("models/fairy"), directory.path() / "copy");
  const auto copy = Checkpoint::Open(directory.path() / "copy");
  ASSERT_TRUE(copy);
  const auto opened = FileBlockReader::Open(*copy, {});
  ASSERT_TRUE(opened);
  const auto to = memory_.bytes().first(4096);
  ASSERT_TRUE(ReadBlocks(**opened, 0, 0, to, 4096));
  const std::filesystem::path shard = directory.path() / "copy" / copy->shards()[0].file;
  std::filesystem::rename(shard, directory.path() / "moved");
  EXPECT_TRUE(ReadBlocks(**opened, 0, 0, to, 4096)) << "a shard that has moved is still there";
  std::filesystem::resize_file(directory.path() / "moved", 8192);
  const Status changed = ReadBlocks(**opened, 0, 0, to, 4096);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::kInvalidData);
  EXPECT_THAT(changed.error().message, HasSubstr("checkpoint changed while running"));
  const Status truncated = ReadBlocks(**opened, 0, 8192, to, 4096);
  ASSERT_FALSE(truncated);
  EXPECT_THAT(truncated.error().message, HasSubstr("shard truncated"));
}

}  // namespace
}  // namespace fathom::checkpoint
