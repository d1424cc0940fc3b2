// MappedFile: a whole file mapped read-only. Pages are read from disk when first touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace fathom {

// Owns one mapping; movable. The bytes stay valid as long as the object lives. Many threads may
// read. If the file shrinks while it is mapped, reads of the lost part fail with SIGBUS: do not
// edit checkpoints in place while they are served.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);
  // Errors: those of OpenToRead for a regular file; the system refuses the mapping.

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace fathom
