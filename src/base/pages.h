// Memory as pages: where it comes from, and when it is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/result.h"

namespace fathom {

inline constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

// Zeroed memory of its own; movable. Pages take memory when they are first touched.
class PageMemory {
 public:
  // From kHugePageBytes on it is aligned to that, and the kernel is asked for huge pages: fewer
  // entries in the page tables, and several times faster to zero. Fails with kOutOfMemory.
  static Result<PageMemory> Allocate(std::int64_t bytes);
  // The same from the huge pages that the administrator has set aside, where there are enough.
  static Result<PageMemory> AllocateReserved(std::int64_t bytes);

  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  PageMemory(std::span<std::byte> bytes, std::size_t mapped) : bytes_(bytes), mapped_(mapped) {}

  std::span<std::byte> bytes_;
  std::size_t mapped_ = 0;  // bytes_ may be less than the last page
};

// Mapped bytes of a file: asks the disk for them and does not wait. Where they are in memory
// already this costs about two microseconds per megabyte.
void AdviseReadAhead(std::span<const std::byte> bytes);

// Mapped bytes of a file that will hardly be read: gives their whole pages back, and a mapping of
// their own. Linux maps all of a large piece of the page cache with the first page of it that is
// read, but not beyond a mapping.
void SetPagesApart(std::span<const std::byte> bytes);

// Waits until all pages of `bytes` are in memory and mapped.
void TouchPages(std::span<const std::byte> bytes);

// Bytes that will not be read again soon: gives their pages back, locked or not, but for those that
// hold something else too. The bytes of a file come again when they are read; those of other memory
// are lost.
void ReleasePages(std::span<const std::byte> bytes);

// Keeps the pages of `bytes` in memory from the moment each is first touched. Error: the system
// refuses; the message names `what`, the bytes and the limit.
Status LockPages(std::span<const std::byte> bytes, std::int64_t total, std::string_view what);

// Bytes that can be taken without swapping (MemAvailable); nullopt if the system does not say.
std::optional<std::int64_t> AvailableMemory(const std::filesystem::path& root = "/");

// How many of these bytes of private memory lie in huge pages.
std::int64_t BytesInHugePages(std::span<const std::byte> bytes);

// How many bytes of these mappings are in memory, for this process. Takes milliseconds where there
// are thousands.
std::int64_t ResidentBytes(std::span<const std::span<const std::byte>> mappings);

}  // namespace fathom
