#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/json/colliding_keys.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Declaration = SafetensorsWriter::Declaration;

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::string> FilesIn(const std::filesystem::path& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files.push_back(entry.path().filename().string());
  }
  return files;
}

TEST(SafetensorsWriter, WritesWhatCheckpointReads) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "out.safetensors";
  const std::vector<Declaration> tensors = {{"logits", DType::kF32, {2, 1}},
                                            {"quote \" \\ \n é", DType::kU8, {3}},
                                            {"none", DType::kI8, {0}}};
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_FALSE(std::filesystem::exists(path));
  // Cut across the tensors' borders.
  for (const std::string_view piece : {"01234", "", "56789", "a"}) {
    const Status appended = writer->Append(AsBytes(piece));
    ASSERT_TRUE(appended) << appended.error().message;
  }
  const Status finished = writer->Finish();
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_THAT(FilesIn(directory.path()), ElementsAre("out.safetensors"));
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  const TensorView* first = checkpoint->Find("logits");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(std::string(first->As<char>(), 8), "01234567");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->bytes.data()) % 64, 0u);
  const TensorView* second = checkpoint->Find("quote \" \\ \n é");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(std::string(second->As<char>(), 3), "89a");
}

double SecondsToWriteAndRead(const std::vector<std::string>& names) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  std::vector<Declaration> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kU8, {0}});
  const auto begin = std::chrono::steady_clock::now();
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
  EXPECT_TRUE(writer && writer->Finish());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint && checkpoint->tensors().size() == names.size());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Quadratic time was 60 times as long.
TEST(SafetensorsWriter, HostileNamesTakeNoLongerThanOthers) {
  constexpr std::size_t kNames = 40'000;
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < kNames; ++i) plain.push_back(fmt::format("a plain name {:019}", i));
  const double usual = SecondsToWriteAndRead(plain);
  const double hostile = SecondsToWriteAndRead(testing::CollidingKeys::Make(kNames));
  EXPECT_LT(hostile, std::max(0.5, 10 * usual));
}

// Any tensors, cut anywhere, come back as they were.
TEST(SafetensorsWriter, RoundTrip) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  const bool ok = rc::check("round trip", [&] {
    std::vector<Declaration> tensors;
    std::string data;
    const auto n_tensors = *rc::gen::inRange(0, 6);
    for (int i = 0; i < n_tensors; ++i) {
      const auto dtype =
          static_cast<DType>(*rc::gen::inRange(0, static_cast<int>(DType::kU64) + 1));
      const auto rows = *rc::gen::inRange<std::int64_t>(0, 50);
      tensors.push_back({fmt::format("t{}", i), dtype, {rows, 4}});
      for (std::int64_t k = 0; k < *TensorBytes(dtype, tensors.back().shape); ++k) {
        data += static_cast<char>(data.size() * 31 % 251);
      }
    }
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
    RC_ASSERT(writer.has_value());
    for (std::string_view left = data; !left.empty();) {
      const std::size_t piece = std::min(left.size(), *rc::gen::inRange<std::size_t>(1, 400));
      RC_ASSERT(writer->Append(AsBytes(left.substr(0, piece))).has_value());
      left.remove_prefix(piece);
    }
    RC_ASSERT(writer->Finish().has_value());
    const Result<Checkpoint> checkpoint = Checkpoint::Open(path);
    RC_ASSERT(checkpoint.has_value());
    std::string read;
    for (const Declaration& tensor : tensors) {
      const TensorView* view = checkpoint->Find(tensor.name);
      RC_ASSERT(view != nullptr);
      RC_ASSERT(view->dtype == tensor.dtype && view->shape == tensor.shape);
      read.append(view->As<char>(), view->bytes.size());
    }
    RC_ASSERT(read == data);
  });
  EXPECT_TRUE(ok);
}

TEST(SafetensorsWriter, LargerThanItsBuffer) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  std::string data((std::size_t{5} << 20) + 17, ' ');
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<char>(i * 2654435761u >> 24);
  }
  const std::vector<Declaration> tensors = {
      {"t", DType::kU8, {static_cast<std::int64_t>(data.size())}}};
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->Append(AsBytes(data)));
  ASSERT_TRUE(writer->Finish());
  const Result<Checkpoint> checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE(std::ranges::equal(checkpoint->Find("t")->bytes, AsBytes(data)));
}

TEST(SafetensorsWriter, LeavesNothingHalfDone) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  const std::vector<Declaration> tensors = {{"t", DType::kU8, {4}}};
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
    ASSERT_TRUE(writer) << writer.error().message;
    EXPECT_EQ(FilesIn(directory.path()).size(), 1u);
    SafetensorsWriter moved = std::move(*writer);
    ASSERT_TRUE(moved.Append(AsBytes("123")));
    const Status finished = moved.Finish();
    ASSERT_FALSE(finished);
    EXPECT_THAT(finished.error().message, HasSubstr("have 4 bytes, found only 3"));
  }
  EXPECT_THAT(FilesIn(directory.path()), IsEmpty());
}

TEST(SafetensorsWriter, ReplacesAFileOnlyWhenFinished) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  testing::WriteFile(path, "old");
  const std::vector<Declaration> tensors = {{"t", DType::kU8, {4}}};
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->Append(AsBytes("1234")));
  EXPECT_EQ(testing::ReadFile(path), "old");
  ASSERT_TRUE(writer->Finish());
  EXPECT_TRUE(Checkpoint::Open(path).has_value());
  EXPECT_FALSE(writer->Append(AsBytes("5")));
  EXPECT_FALSE(writer->Finish());
  EXPECT_TRUE(Checkpoint::Open(path).has_value());
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  const std::vector<std::vector<Declaration>> cases = {
      {{"t", DType::kU8, {1}}, {"t", DType::kU8, {1}}},
      {{"__metadata__", DType::kU8, {1}}},
      {{"t", DType::kU8, {-1}}},
      {{"t", DType::kF32, {std::int64_t{1} << 40, std::int64_t{1} << 40}}},
      {{"t", DType::kU8, {std::int64_t{1} << 62}}, {"u", DType::kF32, {std::int64_t{1} << 61}}},
  };
  for (const std::vector<Declaration>& tensors : cases) {
    const Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(writer.error().message, HasSubstr("x.safetensors: tensor "));
  }
  EXPECT_THAT(FilesIn(directory.path()), IsEmpty());
}

TEST(SafetensorsWriter, RefusesMoreThanDeclared) {
  const testing::TemporaryDirectory directory;
  const std::vector<Declaration> tensors = {{"t", DType::kU8, {4}}};
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::Create(directory.path() / "x.safetensors", tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  const Status appended = writer->Append(AsBytes("12345"));
  ASSERT_FALSE(appended);
  EXPECT_THAT(appended.error().message, HasSubstr("have 4 bytes, found 5"));
}

TEST(SafetensorsWriter, UnwritablePlaces) {
  const testing::TemporaryDirectory directory;
  const std::vector<Declaration> tensors = {{"t", DType::kU8, {0}}};
  const std::filesystem::path absent = directory.path() / "absent" / "x.safetensors";
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(absent, tensors);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_THAT(writer.error().message,
              AllOf(HasSubstr(absent.string()), HasSubstr("cannot create")));
  // A directory cannot be replaced by a file.
  std::filesystem::create_directory(directory.path() / "taken");
  writer = SafetensorsWriter::Create(directory.path() / "taken", tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  const Status finished = writer->Finish();
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, AllOf(HasSubstr("taken"), HasSubstr("cannot be replaced")));
}

// A limit on file sizes fails a write as a full disk does: part of the bytes, then an error.
TEST(SafetensorsWriter, FullDisk) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "x.safetensors";
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit limited = old;
  limited.rlim_cur = 1'500'000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const std::string data(3'000'000, 'x');
  Status appended;
  Status finished;
  {
    const std::vector<Declaration> tensors = {{"t", DType::kU8, {3'000'000}}};
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, tensors);
    if (writer) {
      appended = writer->Append(AsBytes(data));
      finished = writer->Finish();
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ErrorCode::kIo);
  EXPECT_THAT(appended.error().message, AllOf(HasSubstr(path.string()), HasSubstr("cannot write")));
  EXPECT_FALSE(finished);
  EXPECT_THAT(FilesIn(directory.path()), IsEmpty());
}

}  // namespace
}  // namespace fathom::checkpoint
