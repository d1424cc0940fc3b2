// Lost pages: pages of mapped files that cannot be read any more, because the file has been
// truncated since it was mapped, or its disk fails. Touching one raises SIGBUS, which ends a
// process without a word. With a handler the process goes on with zeros instead, and CheckLostPages
// says that what was computed since then is worth nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace fathom {

// Begins to replace a lost page of a watched mapping, and all pages behind it in the mapping, by
// zeros, and to report the first one of the process on standard error. Any other SIGBUS does what
// it did before. Call it once, at the start of the process.
void HandleLostPages();

// Error: pages of a mapping have been lost since the process began; names the file and the byte.
// Sees what this thread, and all threads that it has waited for, have lost. Any thread.
Status CheckLostPages();

// Watches a mapping for lost pages while it lives; movable. Any thread.
class WatchedMapping {
 public:
  WatchedMapping() = default;
  // `bytes` is all of the mapping of this file.
  WatchedMapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
  WatchedMapping(WatchedMapping&& other) noexcept;
  WatchedMapping& operator=(WatchedMapping&& other) noexcept;
  ~WatchedMapping();

 private:
  struct Entry;
  friend struct LostPages;

  Entry* entry_ = nullptr;
};

}  // namespace fathom
