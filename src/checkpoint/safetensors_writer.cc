#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/seeded_hash.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors_header.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::checkpoint {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kDataAlignment = 64;
constexpr std::int64_t kWriteBackBytes = std::int64_t{32} << 20;

struct Layout {
  std::string header;  // the 8 bytes of its length, the JSON, padding
  std::int64_t data_bytes = 0;
};

Result<Layout> MakeLayout(const std::string& path,
                          std::span<const SafetensorsWriter::Declaration> tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::unordered_set<std::string_view, SeededHash> names = {"__metadata__"};
  std::int64_t begin = 0;
  for (const SafetensorsWriter::Declaration& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: tensor {} is declared twice", path,
                       Quoted(tensor.name));
    }
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                      [](std::int64_t dimension) { return dimension < 0; });
    const std::optional<std::int64_t> bytes =
        negative ? std::nullopt : TensorBytes(tensor.dtype, tensor.shape);
    const std::int64_t room = std::numeric_limits<std::int64_t>::max() - begin;
    if (!bytes || *bytes > room) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: tensor {}: impossible shape {}", path,
                       Quoted(tensor.name), ShapeToString(tensor.shape));
    }
    const std::int64_t end = begin + *bytes;
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                        PythonJsonString(tensor.name), Name(tensor.dtype),
                        ShapeToString(tensor.shape), begin, end);
    begin = end;
  }
  json += '}';
  constexpr std::size_t kLengthBytes = 8;
  json.append((kDataAlignment - (kLengthBytes + json.size()) % kDataAlignment) % kDataAlignment,
              ' ');
  if (json.size() > static_cast<std::size_t>(kLongestSafetensorsHeader)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: {} tensors need a header of {} bytes, the format allows {}", path,
                     tensors.size(), json.size(), kLongestSafetensorsHeader);
  }
  Layout layout;
  layout.data_bytes = begin;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    layout.header += static_cast<char>((json.size() >> (8 * i)) & 0xFFu);
  }
  layout.header += json;
  return layout;
}

}  // namespace

class SafetensorsWriter::Impl {
 public:
  explicit Impl(const std::filesystem::path& path)
      : path_(path.string()), partial_(fmt::format("{}.partial-{}", path_, ::getpid())) {}

  ~Impl() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(partial_.c_str());
    }
  }

  Status Open(std::span<const Declaration> tensors) {
    Result<Layout> layout = MakeLayout(path_, tensors);
    if (!layout) return Unexpected(std::move(layout.error()));
    expected_bytes_ = layout->data_bytes;
    // A process with the number of a dead one replaces its partial file.
    constexpr int kReadableByAll = 0666;
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                 kReadableByAll);
    if (fd_ < 0) return Failure("cannot create");
    buffer_.reserve(kBufferBytes);
    return Write(std::as_bytes(std::span(layout->header)));
  }

  Status Append(std::span<const std::byte> bytes) {
    if (const Status open = CheckOpen(); !open) return open;
    const auto n_bytes = static_cast<std::int64_t>(bytes.size());
    if (n_bytes > expected_bytes_ - appended_bytes_) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: the declared tensors have {} bytes, found {} or more", path_,
                       expected_bytes_, appended_bytes_ + n_bytes);
    }
    appended_bytes_ += n_bytes;
    return Write(bytes);
  }

  Status Finish() {
    if (const Status open = CheckOpen(); !open) return open;
    if (appended_bytes_ != expected_bytes_) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: the declared tensors have {} bytes, found only {}", path_,
                       expected_bytes_, appended_bytes_);
    }
    if (const Status flushed = Flush(); !flushed) return flushed;
    if (::fsync(fd_) != 0) return Failure("cannot write to disk");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      return Failure("cannot be replaced by the finished file");
    }
    ::close(std::exchange(fd_, -1));
    SyncDirectory();
    return {};
  }

 private:
  Status CheckOpen() const {
    if (fd_ < 0 || broken_) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: is finished or a write has failed", path_);
    }
    return {};
  }

  tl::unexpected<Error> Failure(std::string_view what) const {
    return MakeError(ErrorCode::kIo, "{}: {}: {}", path_, what, std::strerror(errno));
  }

  Status Write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (buffer_.empty() && bytes.size() >= kBufferBytes) return WriteOut(bytes);
      const std::size_t piece = std::min(bytes.size(), kBufferBytes - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(piece));
      bytes = bytes.subspan(piece);
      if (buffer_.size() == kBufferBytes) {
        if (const Status flushed = Flush(); !flushed) return flushed;
      }
    }
    return {};
  }

  Status Flush() {
    const Status written = WriteOut(buffer_);
    buffer_.clear();
    return written;
  }

  Status WriteOut(std::span<const std::byte> left) {
    while (!left.empty()) {
      const ssize_t written = ::write(fd_, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        broken_ = true;
        return Failure("cannot write");
      }
      left = left.subspan(static_cast<std::size_t>(written));
      StartWriteBack(written);
    }
    return {};
  }

  // Starts writing early: otherwise the system keeps gigabytes in memory before it writes. The disk
  // then works while the next bytes are computed, and Finish waits only for the rest. The system
  // may refuse.
  void StartWriteBack(std::int64_t more) {
    waiting_bytes_ += more;
    if (waiting_bytes_ >= kWriteBackBytes) {
      static_cast<void>(::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE));
      waiting_bytes_ = 0;
    }
  }

  // Makes the new name survive a power failure. The file itself is complete; a file system that
  // cannot do this is not an error.
  void SyncDirectory() const {
    const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
    const int fd =
        ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      ::fsync(fd);
      ::close(fd);
    }
  }

  const std::string path_;
  const std::string partial_;
  int fd_ = -1;  // descriptor of partial_, while it exists
  std::vector<std::byte> buffer_;
  std::int64_t expected_bytes_ = 0;  // bytes of all tensors
  std::int64_t appended_bytes_ = 0;
  std::int64_t waiting_bytes_ = 0;  // written since write-back was last started
  bool broken_ = false;             // a write failed: the file has a gap and cannot be finished
};

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::filesystem::path& path,
                                                    std::span<const Declaration> tensors) {
  auto impl = std::make_unique<Impl>(path);
  if (const Status opened = impl->Open(tensors); !opened) return Unexpected(opened.error());
  return SafetensorsWriter(std::move(impl));
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Status SafetensorsWriter::Append(std::span<const std::byte> bytes) { return impl_->Append(bytes); }
Status SafetensorsWriter::Finish() { return impl_->Finish(); }

}  // namespace fathom::checkpoint
