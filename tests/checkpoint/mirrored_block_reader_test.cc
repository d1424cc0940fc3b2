// A checkpoint on two drives: both are read, one helps the other, and only copies are mirrors.
#include "checkpoint/mirrored_block_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
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

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryReader;

constexpr std::int64_t kBytes = 1 << 20;
constexpr std::int64_t kPiece = 64 << 10;

std::int64_t ReadAll(int, std::int64_t, std::int64_t n) { return n; }
std::int64_t Fail(int, std::int64_t, std::int64_t) { return -EIO; }

struct TwoDrives {
  MemoryReader* original = nullptr;
  MemoryReader* mirror = nullptr;
  std::vector<std::string> warnings;
  std::unique_ptr<MirroredBlockReader> reader;

  TwoDrives(MemoryReader::Result first, MemoryReader::Result second, double first_speed = 1e9,
            double second_speed = 1e9) {
    auto a = std::make_unique<MemoryReader>(kBytes, std::move(first));
    auto b = std::make_unique<MemoryReader>(kBytes, std::move(second));
    original = a.get();
    mirror = b.get();
    reader = std::make_unique<MirroredBlockReader>(
        MirroredBlockReader::Drive{std::move(a), first_speed},
        MirroredBlockReader::Drive{std::move(b), second_speed},
        [this](const std::string& warning) { warnings.push_back(warning); });
  }
  Status ReadPiece(std::int64_t offset, std::vector<std::byte>& to) {
    to.assign(static_cast<std::size_t>(kPiece), std::byte{});
    return ReadBlocks(*reader, 0, offset, to, kPiece);
  }
  void ExpectPiece(std::int64_t offset) {
    std::vector<std::byte> to;
    const Status read = ReadPiece(offset, to);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(std::memcmp(to.data(), original->bytes_.data() + offset, to.size()), 0);
  }
};

TEST(MirroredBlockReader, AsksTheDriveThatWillEndFirst) {
  TwoDrives drives(ReadAll, ReadAll, 1e9, 3e9);
  drives.ExpectPiece(0);
  EXPECT_EQ(drives.original->n_calls_, 0);
  EXPECT_EQ(drives.mirror->n_calls_, 1) << "the faster one";
  EXPECT_EQ(drives.reader->BytesFrom(1), kPiece);
}

// While one drive is busy, the other one reads.
TEST(MirroredBlockReader, ReadsFromBothAtOnce) {
  std::promise<void> begun, end;
  std::shared_future<void> ended = end.get_future().share();
  TwoDrives drives(
      [&begun, ended](int call, std::int64_t, std::int64_t n) {
        if (call == 0) begun.set_value();
        ended.wait();
        return n;
      },
      ReadAll);
  std::jthread first([&] { drives.ExpectPiece(0); });
  begun.get_future().wait();
  drives.ExpectPiece(kPiece);
  EXPECT_EQ(drives.mirror->n_calls_, 1);
  end.set_value();
  first.join();
  EXPECT_EQ(drives.reader->BytesFrom(0), kPiece);
  EXPECT_EQ(drives.reader->BytesFrom(1), kPiece);
}

// Each drive fails everything in turn, and an end that comes too early is a failure as well.
TEST(MirroredBlockReader, ReadsWhatOneDriveCannotFromTheOther) {
  for (const std::int64_t failure : {std::int64_t{-EIO}, std::int64_t{0}}) {
    const auto fail = [failure](int, std::int64_t, std::int64_t) { return failure; };
    for (const bool original_fails : {true, false}) {
      TwoDrives drives(original_fails ? MemoryReader::Result(fail) : ReadAll,
                       original_fails ? MemoryReader::Result(ReadAll) : fail, 1e9,
                       original_fails ? 1e8 : 1e10);
      for (std::int64_t offset = 0; offset < kBytes; offset += kPiece) drives.ExpectPiece(offset);
      EXPECT_THAT(drives.warnings,
                  ElementsAre(AllOf(HasSubstr("shard, offset 0: "), HasSubstr("; reading shard "))))
          << "once";
      const MemoryReader& failing = original_fails ? *drives.original : *drives.mirror;
      EXPECT_LT(failing.n_calls_, kBytes / kPiece / 2) << "it is asked less often";
    }
  }
}

TEST(MirroredBlockReader, FailsWhereBothFail) {
  TwoDrives drives(Fail, Fail);
  std::vector<std::byte> to;
  const Status read = drives.ReadPiece(0, to);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "storage_error: shard and its mirror shard, offset 0: Input/output error (errno 5)");
  EXPECT_TRUE(drives.warnings.empty());
}

// --- Which files are mirrors ---

class Mirror : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path model = testing::ProjectPath("models/fairy");
    copy_ = directory_.path() / "copy";
    std::filesystem::copy(model, copy_);
    checkpoint_ = *Checkpoint::Open(model);
  }
  Status Check() {
    auto original = FileBlockReader::Open(checkpoint_, {});
    auto mirror = FileBlockReader::OpenIn(copy_, checkpoint_, {});
    if (!mirror) return Unexpected(mirror.error());
    return CheckMirror(checkpoint_, **original, **mirror);
  }
  std::filesystem::path Shard(std::size_t file) const {
    return copy_ / checkpoint_.shards()[file].file;
  }
  void ExpectRefused(const std::string& reason) {
    const Status status = Check();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr(reason));
  }
  // Overwrites the shard from this offset on.
  void Change(std::size_t file, std::int64_t offset, std::int64_t bytes) {
    std::fstream shard(Shard(file), std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(offset);
    shard << std::string(static_cast<std::size_t>(bytes), 'x');
  }

  testing::TemporaryDirectory directory_;
  std::filesystem::path copy_;
  Checkpoint checkpoint_;
};

TEST_F(Mirror, IsACopy) {
  const Status status = Check();
  EXPECT_TRUE(status) << status.error().message;
}

TEST_F(Mirror, HasTheSameHeaders) {
  Change(2, 100, 1);
  ExpectRefused("expected the same bytes, found others at offset 100");
  ExpectRefused(": no mirror of ");
}

// Another training of the same model has the same headers and sizes.
TEST_F(Mirror, HasTheSameWeights) {
  const std::int64_t all = checkpoint_.shards()[1].bytes;
  Change(1, all / 2, all - all / 2);
  ExpectRefused(checkpoint_.shards()[1].file + ": no mirror of ");
}

TEST_F(Mirror, HasAllShardsWhole) {
  std::filesystem::resize_file(Shard(0), 4096);
  ExpectRefused(" bytes, as when the checkpoint was opened, found 4096");
  std::filesystem::remove(Shard(0));
  ExpectRefused("cannot open: No such file or directory");
}

// Opening a pipe would wait for a writer.
TEST_F(Mirror, HasRegularFiles) {
  std::filesystem::remove(Shard(0));
  ASSERT_EQ(mkfifo(Shard(0).c_str(), 0600), 0);
  ExpectRefused("expected a regular file, found a pipe");
}

TEST_F(Mirror, MayNotChangeWhileItIsRead) {
  auto original = FileBlockReader::Open(checkpoint_, {});
  auto copy = FileBlockReader::OpenIn(copy_, checkpoint_, {});
  ASSERT_TRUE(original && copy);
  MirroredBlockReader reader({*std::move(original), 1e9}, {*std::move(copy), 1e9}, {});
  const PageMemory memory = *PageMemory::Allocate(kReadBlockBytes);
  ASSERT_TRUE(ReadBlocks(reader, 0, 0, memory.bytes(), kReadBlockBytes));
  std::filesystem::resize_file(Shard(0), 8192);
  const Status changed = ReadBlocks(reader, 0, 0, memory.bytes(), kReadBlockBytes);
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().message,
              AllOf(HasSubstr("copy/"), HasSubstr("checkpoint changed while running")));
}

}  // namespace
}  // namespace fathom::checkpoint
