// Lost pages: pages of mapped files that cannot be read any more, because the file has been
// truncated since it was mapped, or its disk fails. Touching one raises SIGBUS, which ends a
// process without a message. With a handler, the process continues with zeros instead, and
// CheckLostPages returns an error: results since then are invalid.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace fathom {

// Installs the handler. It replaces a lost page of a watched mapping, and all pages after it in the
// mapping, by zeros, and reports the first loss of the process on standard error. Any other SIGBUS
// has its earlier effect. Call it once, at the start of the process.
void HandleLostPages();

// Error: pages of a mapping have been lost since the process began; names the file and the byte.
// Sees losses of this thread and of all threads that it has waited for. Any thread.
Status CheckLostPages();

// Watches a mapping for lost pages while it lives; movable. Any thread.
class WatchedMapping {
 public:
  WatchedMapping() = default;
  // `bytes` is the whole mapping of this file.
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
