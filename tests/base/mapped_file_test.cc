#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string_view>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

TEST(MappedFile, ShowsTheBytes) {
  testing::TemporaryDirectory directory;
  std::ofstream(directory.path() / "file") << "hello";
  Result<MappedFile> file = MappedFile::Open(directory.path() / "file");
  ASSERT_TRUE(file) << file.error().message;
  MappedFile moved = std::move(*file);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(moved.bytes().data()), 5), "hello");
}

TEST(MappedFile, EmptyFileIsEmpty) {
  testing::TemporaryDirectory directory;
  std::ofstream(directory.path() / "file");
  Result<MappedFile> file = MappedFile::Open(directory.path() / "file");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, SaysWhatIsWrong) {
  testing::TemporaryDirectory directory;
  Result<MappedFile> absent = MappedFile::Open(directory.path() / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find("absent"), std::string::npos);
  Result<MappedFile> folder = MappedFile::Open(directory.path());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("expected a regular file"), std::string::npos);
}

}  // namespace
}  // namespace fathom
