#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  std::filesystem::path Path(const char* name) const { return directory_.path() / name; }

  // A socket at this path, which nobody listens on.
  void MakeSocket(const std::filesystem::path& path) const {
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path.string(), address.sun_path);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
  }

  const testing::TemporaryDirectory directory_;
};

TEST_F(FileTest, ReadsAllOfAFileUpToItsBound) {
  std::ofstream(Path("file")) << "hello";
  EXPECT_EQ(ReadFile(Path("file"), 5).value(), "hello");
  const Result<std::string> refused = ReadFile(Path("file"), 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidData);
  EXPECT_THAT(refused.error().message, HasSubstr("file: expected at most 4 bytes, found more"));
  EXPECT_EQ(ReadFile(Path("absent"), 4).error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, OtherThanRegularFilesAreRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  MakeSocket(Path("socket"));
  std::filesystem::create_directory(Path("directory"));
  std::filesystem::create_symlink("/dev/zero", Path("device"));
  for (const char* kind : {"pipe", "socket", "directory", "device"}) {
    const Result<std::string> refused = ReadFile(Path(kind), 1 << 20);
    ASSERT_FALSE(refused) << kind;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidData);
    EXPECT_EQ(refused.error().message,
              Path(kind).string() + ": expected a regular file, found a " + kind);
  }
  const Result<std::string> device = ReadFile(Path("device"), 1 << 20, FileKind::kRegularOrPipe);
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message,
              HasSubstr("expected a regular file or a pipe, found a device"));
}

TEST_F(FileTest, APipeIsReadToItsEndOrBound) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const std::string text(300'000, 'x');  // more than a pipe holds
  for (const std::size_t most_bytes : {text.size(), text.size() - 1}) {
    std::thread writer([&] {
      const Descriptor pipe(::open(Path("pipe").c_str(), O_WRONLY | O_CLOEXEC));
      static_cast<void>(WriteDescriptor(pipe.get(), "pipe", text));
    });
    const Result<std::string> read = ReadFile(Path("pipe"), most_bytes, FileKind::kRegularOrPipe);
    writer.join();
    ASSERT_EQ(read.has_value(), most_bytes == text.size());
    EXPECT_EQ(read.value_or(text), text);
  }
}

TEST_F(FileTest, APipeWithoutANameMayBeEmpty) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor read_end(ends[0]);
  ::close(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(read_end.get());
  EXPECT_EQ(ReadFile(path, 10, FileKind::kRegularOrPipe).value(), "");
}

TEST_F(FileTest, APipeThatNobodyWritesToIsNotWaitedForWithoutEnd) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  const Result<std::string> refused = ReadFile(Path("pipe"), 10, FileKind::kRegularOrPipe);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("expected a pipe that is written to"));
}

}  // namespace
}  // namespace fathom
