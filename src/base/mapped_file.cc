#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"

namespace fathom {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const Result<Descriptor> file = OpenToRead(path, FileKind::kRegular);
  if (!file) return Unexpected(file.error());
  struct stat info = {};
  if (::fstat(file->get(), &info) != 0) {
    return MakeError(ErrorCode::kIo, "{}: cannot read its size: {}", path.string(),
                     std::strerror(errno));
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  // mmap refuses an empty mapping; an empty file is an ordinary file.
  if (size == 0) return MappedFile();
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->get(), 0);
  if (address == MAP_FAILED) {
    return MakeError(ErrorCode::kIo, "{}: cannot map {} bytes: {}", path.string(), size,
                     std::strerror(errno));
  }
  return MappedFile({static_cast<const std::byte*>(address), size}, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), watched_(std::move(other.watched_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(watched_, other.watched_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    watched_ = WatchedMapping();
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace fathom
