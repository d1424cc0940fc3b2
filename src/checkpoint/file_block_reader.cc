#include "checkpoint/file_block_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace fathom::checkpoint {
namespace {

std::string Describe(int error) { return std::generic_category().message(error); }

// Returns true if the kernel accepts offsets and addresses of kReadBlockBytes for direct reads of
// the file, or does not report what it accepts.
bool TakesBlocks(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx found = {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0 &&
      (found.stx_mask & STATX_DIOALIGN) != 0) {
    return found.stx_dio_offset_align > 0 && kReadBlockBytes % found.stx_dio_offset_align == 0 &&
           kReadBlockBytes % found.stx_dio_mem_align == 0;
  }
#endif
  return descriptor >= 0;
}

bool AreBlocks(std::int64_t offset, std::span<const std::byte> to) {
  return offset % kReadBlockBytes == 0 && std::ssize(to) % kReadBlockBytes == 0 &&
         reinterpret_cast<std::uintptr_t>(to.data()) % kReadBlockBytes == 0;
}

}  // namespace

Result<FileBlockReader::File> FileBlockReader::OpenFile(const std::filesystem::path& path,
                                                        std::int64_t bytes) {
  Result<Descriptor> opened = OpenToRead(path, FileKind::kRegular);
  if (!opened) return Unexpected(opened.error());
  File file{.path = path, .buffered = *std::move(opened)};
  struct stat found = {};
  if (::fstat(file.buffered.get(), &found) != 0) {
    return MakeError(ErrorCode::kIo, "{}: {}", path.string(), Describe(errno));
  }
  if (found.st_size != bytes) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected {} bytes, as when the checkpoint was opened, found {}",
                     path.string(), bytes, found.st_size);
  }
  // Consecutive reads are not consecutive in the file.
  ::posix_fadvise(file.buffered.get(), 0, 0, POSIX_FADV_RANDOM);
  file.direct = Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_DIRECT));
  if (!TakesBlocks(file.direct.get())) file.direct.Close();
  file.bytes = bytes;
  file.changed_seconds = found.st_mtim.tv_sec;
  file.changed_nanoseconds = found.st_mtim.tv_nsec;
  return file;
}

Result<std::unique_ptr<FileBlockReader>> FileBlockReader::Open(
    const Checkpoint& checkpoint, std::function<void(const std::string&)> warn) {
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(checkpoint.path(), ignored);
  return OpenIn(is_directory ? checkpoint.path() : checkpoint.path().parent_path(), checkpoint,
                std::move(warn));
}

Result<std::unique_ptr<FileBlockReader>> FileBlockReader::OpenIn(
    const std::filesystem::path& directory, const Checkpoint& checkpoint,
    std::function<void(const std::string&)> warn) {
  std::unique_ptr<FileBlockReader> reader(new FileBlockReader(std::move(warn)));
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    Result<File> file = OpenFile(directory / shard.file, shard.bytes);
    if (!file) return Unexpected(file.error());
    if (file->direct.get() < 0) reader->Refuse(file->path);
    reader->files_.push_back(*std::move(file));
  }
  return reader;
}

void FileBlockReader::Refuse(const std::filesystem::path& path) {
  if (refused_.exchange(true) || !warn_) return;
  warn_(fmt::format("{}: the file system refuses direct reads; reading through the page cache",
                    path.string()));
}

void FileBlockReader::DropPages(std::size_t file, std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(files_[file].buffered.get(), offset, bytes, POSIX_FADV_DONTNEED);
}

// A check by a read that must not wait would start reading missing pages.
bool FileBlockReader::MayHavePages(std::size_t file, std::int64_t offset,
                                   std::int64_t bytes) const {
  const auto size = static_cast<std::size_t>(bytes);
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, files_[file].buffered.get(), offset);
  if (mapped == MAP_FAILED) return true;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> residency((size + page - 1) / page);
  const bool is_known = ::mincore(mapped, size, residency.data()) == 0;
  ::munmap(mapped, size);
  return !is_known ||
         std::ranges::any_of(residency, [](unsigned char bits) { return (bits & 1) != 0; });
}

std::int64_t FileBlockReader::Read(std::size_t file, std::int64_t offset, std::span<std::byte> to) {
  const File& from = files_[file];
  // The rest after a short read is not aligned, so it is read through the page cache.
  if (IsDirect() && AreBlocks(offset, to)) {
    const ssize_t n = ::pread(from.direct.get(), to.data(), to.size(), offset);
    if (n >= 0 || errno != EINVAL) return n >= 0 ? n : -errno;
    Refuse(from.path);
  }
  const ssize_t n = ::pread(from.buffered.get(), to.data(), to.size(), offset);
  if (n < 0) return -errno;
  DropPages(file, offset, n);
  return n;
}

Status FileBlockReader::CheckUnchanged(std::size_t file) {
  const File& from = files_[file];
  struct stat found = {};
  if (::fstat(from.buffered.get(), &found) != 0) return {};
  if (found.st_size == from.bytes && found.st_mtim.tv_sec == from.changed_seconds &&
      found.st_mtim.tv_nsec == from.changed_nanoseconds) {
    return {};
  }
  return MakeError(
      ErrorCode::kInvalidData,
      "{}: checkpoint changed while running: expected {} bytes, last written at {}.{:09} (Unix "
      "time), found {} bytes, written at {}.{:09}",
      from.path.string(), from.bytes, from.changed_seconds, from.changed_nanoseconds, found.st_size,
      found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

}  // namespace fathom::checkpoint
