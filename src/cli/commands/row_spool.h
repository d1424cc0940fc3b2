// RowSpool: rows that belong at the end of a file which is still being written at its front.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace fathom::cli {

// Owns a temporary file without a name: it is gone with the process, however that ends. One thread.
class RowSpool {
 public:
  // In `directory`; empty means the current one.
  static Result<RowSpool> Create(const std::filesystem::path& directory);

  Status Append(std::span<const std::byte> bytes);
  // Hands all that was appended to `consume`, in order, in pieces.
  Status Replay(const std::function<Status(std::span<const std::byte>)>& consume);

 private:
  explicit RowSpool(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  Descriptor descriptor_;
};

}  // namespace fathom::cli
