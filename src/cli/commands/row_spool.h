// RowSpool: stores rows that belong at the end of a file while its beginning is still being
// written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom::cli {

// Owns a temporary file without a name: the system removes it when the process ends in any way. One
// thread.
class RowSpool {
 public:
  // Creates the file in `directory`; empty means the current directory.
  static Result<RowSpool> Create(const std::filesystem::path& directory);

  Status Append(std::span<const std::byte> bytes);
  // Passes all appended bytes to `consume`, in order, in pieces.
  Status Replay(const std::function<Status(std::span<const std::byte>)>& consume);

 private:
  explicit RowSpool(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  Descriptor descriptor_;
};

}  // namespace fathom::cli
