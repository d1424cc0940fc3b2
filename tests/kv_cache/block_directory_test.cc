// Which files are whose, and their order.
#include "kv_cache/block_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>

#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::kv_cache {
namespace {

namespace fs = std::filesystem;

BlockKey Key(int number) { return HashBytes(std::as_bytes(std::span(&number, 1))); }
BlockFileName Name(int number) { return {.fingerprint = Key(0), .key = Key(number)}; }

TEST(BlockFileList, IsInTheOrderOfUse) {
  std::mt19937 random(3);
  BlockFileList list;
  std::vector<std::pair<int, std::int64_t>> expected;  // the oldest first
  const auto position = [&](int number) {
    return std::find_if(expected.begin(), expected.end(),
                        [&](const auto& entry) { return entry.first == number; });
  };
  for (int step = 0; step < 20'000; ++step) {
    const int number = static_cast<int>(random() % 30);
    const std::int64_t bytes = static_cast<std::int64_t>(random() % 100);
    const auto place = position(number);
    switch (random() % 4) {
      case 0:
        list.Use(Name(number), bytes);
        if (place != expected.end()) {
          expected.erase(place);
        }
        expected.emplace_back(number, bytes);
        break;
      case 1:
        list.UseAgain(Name(number));
        if (place != expected.end()) {
          std::rotate(place, place + 1, expected.end());
        }
        break;
      case 2:
        list.Remove(Name(number));
        if (place != expected.end()) {
          expected.erase(place);
        }
        break;
      default:
        if (!expected.empty()) {
          const BlockFileList::Entry oldest = list.TakeOldest();
          ASSERT_EQ(oldest.name, Name(expected.front().first));
          ASSERT_EQ(oldest.bytes, expected.front().second);
          expected.erase(expected.begin());
        }
    }
    std::int64_t sum = 0;
    for (const auto& entry : expected) {
      sum += entry.second;
    }
    ASSERT_EQ(list.n_files(), std::ssize(expected));
    ASSERT_EQ(list.bytes(), sum);
    ASSERT_EQ(list.Contains(Name(number)), position(number) != expected.end());
  }
}

TEST(BlockDirectory, ListsBlocksAndLeavesTheRestAlone) {
  const testing::TemporaryDirectory directory;
  const BlockDirectory blocks = BlockDirectory::Make(directory.path() / "a/b", Key(0)).value();
  for (const int number : {1, 2, 3}) {
    blocks.MakeFolderFor(Name(number));
    testing::WriteFile(blocks.FilePath(Name(number)), std::string(10, 'x'));
  }
  const fs::path file = blocks.FilePath(Name(1));
  const fs::path key_folder = file.parent_path();
  const fs::path folder = key_folder.parent_path();
  const std::string key = file.stem().string();
  const std::vector<fs::path> foreign_files = {
      blocks.path() / "README",
      blocks.path() / std::string(32, 'A'),
      blocks.path() / std::string(32, 'a'),  // a file, where a folder should be
      folder / "ab.txt",
      folder / "partia",
      key_folder / key,
      key_folder / (key + ".histor"),
      key_folder / (key + ".history2"),
      key_folder / (key + ".history.gz"),
      key_folder / (".history"),
      key_folder / (key.substr(1) + ".history"),
      key_folder / (std::string(key[0] == '0' ? "1" : "0") + key.substr(1) + ".history"),
  };
  for (const fs::path& path : foreign_files) {
    testing::WriteFile(path, "mine");
  }
  const std::vector<fs::path> foreign_folders = {blocks.path() / "lost+found", folder / "xyz",
                                                 folder / "partial-folder", key_folder / "ab",
                                                 key_folder / (key + ".window")};
  for (const fs::path& path : foreign_folders) {
    fs::create_directory(path);
    testing::WriteFile(path / "file", "mine");
  }
  const fs::path link = blocks.path() / std::string(32, 'b');
  fs::create_directory_symlink(folder, link);
  testing::WriteFile(folder / "partial-0123-4", "half");

  const Result<BlockDirectory::Listing> listing = blocks.List();
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->files.n_files(), 3);
  EXPECT_EQ(listing->files.bytes(), 30);
  EXPECT_TRUE(listing->files.Contains(Name(1)));
  EXPECT_EQ(listing->n_foreign, std::ssize(foreign_files) + std::ssize(foreign_folders) + 1);
  EXPECT_FALSE(fs::exists(folder / "partial-0123-4"));
  for (const fs::path& path : foreign_files) {
    EXPECT_EQ(testing::ReadFile(path), "mine");
  }
  for (const fs::path& path : foreign_folders) {
    EXPECT_EQ(testing::ReadFile(path / "file"), "mine");
  }
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST(BlockDirectory, ListsByTheTimeOfUse) {
  const testing::TemporaryDirectory directory;
  const BlockDirectory blocks = BlockDirectory::Make(directory.path(), Key(0)).value();
  const std::vector<int> order = {4, 2, 5, 1, 3};
  for (std::size_t i = 0; i < order.size(); ++i) {
    blocks.MakeFolderFor(Name(order[i]));
    const std::string path = blocks.FilePath(Name(order[i]));
    testing::WriteFile(path, "x");
    const timespec time = {.tv_sec = 1'000'000 + static_cast<time_t>(i / 2),
                           .tv_nsec = 1000 + static_cast<long>(i)};
    const timespec times[] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  BlockDirectory::Listing listing = blocks.List().value();
  for (const int number : order) {
    EXPECT_EQ(listing.files.TakeOldest().name, Name(number));
  }
}

TEST(BlockDirectory, IsForItsOwnerOnly) {
  const testing::TemporaryDirectory directory;
  const fs::path top = directory.path() / "new";
  const BlockDirectory blocks = BlockDirectory::Make(top / "er", Key(0)).value();
  blocks.MakeFolderFor(Name(1));
  const fs::path key_folder = fs::path(blocks.FilePath(Name(1))).parent_path();
  for (const fs::path& path : {top, top / "er", key_folder.parent_path(), key_folder}) {
    struct stat info = {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 0777u, 0700u) << path;
  }
}

TEST(BlockDirectory, NamesAreThoseOfTheBlock) {
  const testing::TemporaryDirectory directory;
  const BlockDirectory one = BlockDirectory::Make(directory.path(), Key(0)).value();
  const BlockDirectory two = BlockDirectory::Make(directory.path(), Key(0)).value();
  EXPECT_EQ(one.TemporaryPath(Name(1)), two.TemporaryPath(Name(1)));
  EXPECT_NE(one.TemporaryPath(Name(1)), one.TemporaryPath(Name(2)));
  EXPECT_EQ(one.FilePath(Name(1)), two.FilePath(Name(1)));
}

}  // namespace
}  // namespace fathom::kv_cache
