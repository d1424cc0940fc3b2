// PageMemory: memory in pages: allocation, read-ahead, residency.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/result.h"

namespace fathom {

inline constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

// Owns zeroed memory; movable. Pages use memory from their first touch on.
class PageMemory {
 public:
  // Allocates memory; from kHugePageBytes on, aligned to that size, with a request for transparent
  // huge pages: fewer page table entries, and several times faster to zero. Errors: kOutOfMemory.
  static Result<PageMemory> Allocate(std::int64_t bytes);
  // Allocates from the huge pages that the administrator has reserved, if there are enough.
  static Result<PageMemory> AllocateReserved(std::int64_t bytes);

  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  PageMemory(std::span<std::byte> bytes, std::size_t mapped) : bytes_(bytes), mapped_(mapped) {}

  std::span<std::byte> bytes_;
  std::size_t mapped_ = 0;  // bytes_ may end before the last page
};

// Asks the disk to read mapped bytes of a file, without waiting. Costs about two microseconds per
// megabyte that is already in memory.
void AdviseReadAhead(std::span<const std::byte> bytes);

// Unmaps the whole pages of mapped bytes that will rarely be read, and makes them a separate
// mapping. When a page is read for the first time, Linux maps all of a large piece of the page
// cache, but not beyond a mapping.
void SetPagesApart(std::span<const std::byte> bytes);

// Waits until all pages of `bytes` are in memory and mapped.
void TouchPages(std::span<const std::byte> bytes);

// Populates the pages of private, writable bytes without changing any byte, like a first write.
// Returns false if the system cannot do that (Linux before 5.14) or has no memory left.
bool PopulatePages(std::span<std::byte> bytes);

// Frees the pages of bytes that will not be read again soon, locked or not, except pages that also
// contain other bytes. Bytes of a file are read again at the next touch; other bytes are lost.
void ReleasePages(std::span<const std::byte> bytes);

// Locks each page of `bytes` in memory at its first touch. Errors: the system refuses; the message
// names `what`, the bytes and the limit.
Status LockPages(std::span<const std::byte> bytes, std::int64_t total, std::string_view what);

// Returns the bytes that can be allocated without swapping (MemAvailable); nullopt: the system does
// not report them.
std::optional<std::int64_t> AvailableMemory(const std::filesystem::path& root = "/");

// Returns the bytes to which private memory can be swapped (SwapTotal); 0: not reported.
std::int64_t SwapBytes(const std::filesystem::path& root = "/");

// Returns the bytes of this process in swap (VmSwap); 0: the system does not report them.
std::int64_t SwappedBytes(const std::filesystem::path& root = "/");

// Returns how many of these bytes of private memory are in huge pages.
std::int64_t BytesInHugePages(std::span<const std::byte> bytes);

// Returns how many bytes of these mappings are in memory for this process. Takes milliseconds if
// there are thousands of mappings.
std::int64_t ResidentBytes(std::span<const std::span<const std::byte>> mappings);

}  // namespace fathom
