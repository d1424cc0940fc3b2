// MappedFile: a whole file mapped read-only. Pages are read from disk at first touch.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/lost_pages.h"
#include "base/result.h"

namespace fathom {

// Owns one mapping; movable. The bytes stay valid as long as the object lives. Many threads may
// read. If the file shrinks while it is mapped, the lost part reads as zeros, and CheckLostPages
// returns an error (lost_pages.h).
class MappedFile {
 public:
  // Errors: see OpenToRead for a regular file; the system refuses the mapping.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::span<const std::byte> bytes, const std::filesystem::path& path)
      : bytes_(bytes), watched_(bytes, path) {}

  std::span<const std::byte> bytes_;
  WatchedMapping watched_;
};

}  // namespace fathom
