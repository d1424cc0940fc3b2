#include "base/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/parse_text.h"

namespace fathom {
namespace {

void* MapAnonymous(std::size_t size, int flags) {
  return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

tl::unexpected<Error> CannotAllocate(std::int64_t bytes) {
  return MakeError(ErrorCode::kOutOfMemory, "cannot allocate {} bytes of host memory", bytes);
}

// Returns the pages that contain `bytes`.
std::span<std::byte> WholePages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = RoundUp(reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size(), page);
  return {reinterpret_cast<std::byte*>(begin), end - begin};
}

// Returns the pages that lie entirely within `bytes`.
std::span<std::byte> InnerPages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = RoundUp(reinterpret_cast<std::uintptr_t>(bytes.data()), page);
  const auto end = (reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  return {reinterpret_cast<std::byte*>(begin), begin < end ? end - begin : 0};
}

// Returns the number in "NAME   123 kB", in bytes.
std::optional<std::int64_t> Kilobytes(std::string_view line, std::string_view name) {
  if (!TakePrefix(line, name)) return std::nullopt;
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::optional<std::int64_t> value = TakeNumber<std::int64_t>(line);
  return value ? std::optional(*value * 1024) : std::nullopt;
}

// Returns the bytes of a line of /proc/meminfo or /proc/self/status.
std::optional<std::int64_t> ReadProcField(const std::filesystem::path& path,
                                          std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (const auto bytes = Kilobytes(line, name)) return bytes;
  }
  return std::nullopt;
}

// Returns the sum of these fields over all mappings that overlap with `ranges`, in bytes.
std::int64_t SumOfMappings(std::span<const std::span<const std::byte>> ranges,
                           std::initializer_list<std::string_view> names) {
  std::ifstream file("/proc/self/smaps");
  std::int64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    // A mapping begins with "7f1200000000-7f1240000000 rw-p ...", in hexadecimal.
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const text_end = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), text_end, begin, 16);
    if (dash.ec == std::errc() && dash.ptr != text_end && *dash.ptr == '-') {
      std::from_chars(dash.ptr + 1, text_end, end, 16);
      inside = std::ranges::any_of(ranges, [&](std::span<const std::byte> range) {
        const auto first = reinterpret_cast<std::uintptr_t>(range.data());
        return begin < first + range.size() && first < end;
      });
      continue;
    }
    for (const std::string_view name : names) {
      sum += inside ? Kilobytes(line, name).value_or(0) : 0;
    }
  }
  return sum;
}

}  // namespace

Result<PageMemory> PageMemory::Allocate(std::int64_t bytes) {
  Check(bytes >= 0, "memory of negative size");
  const auto size = static_cast<std::size_t>(bytes);
  constexpr auto kHuge = static_cast<std::size_t>(kHugePageBytes);
  if (size == 0) return PageMemory();
  if (size < kHuge) {
    void* address = MapAnonymous(size, 0);
    if (address == MAP_FAILED) return CannotAllocate(bytes);
    return PageMemory({static_cast<std::byte*>(address), size}, size);
  }
  // Unmaps the excess before and after the aligned part.
  const std::size_t mapped = RoundUp(size, kHuge);
  void* address = size > std::numeric_limits<std::ptrdiff_t>::max() - 2 * kHuge
                      ? MAP_FAILED
                      : MapAnonymous(mapped + kHuge, 0);
  if (address == MAP_FAILED) return CannotAllocate(bytes);
  auto* const begin = static_cast<std::byte*>(address);
  const std::size_t before = RoundUp(reinterpret_cast<std::uintptr_t>(begin), kHuge) -
                             reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) {
    ::munmap(begin, before);
  }
  if (before < kHuge) {
    ::munmap(begin + before + mapped, kHuge - before);
  }
  ::madvise(begin + before, mapped, MADV_HUGEPAGE);
  return PageMemory({begin + before, size}, mapped);
}

Result<PageMemory> PageMemory::AllocateReserved(std::int64_t bytes) {
  Check(bytes > 0, "memory of no size");
  const auto size = static_cast<std::size_t>(bytes);
  const std::size_t mapped = RoundUp(size, static_cast<std::size_t>(kHugePageBytes));
  constexpr int kTwoMegabytes = 21 << MAP_HUGE_SHIFT;
  void* address = MapAnonymous(mapped, MAP_HUGETLB | kTwoMegabytes);
  if (address == MAP_FAILED) return CannotAllocate(bytes);
  return PageMemory({static_cast<std::byte*>(address), size}, mapped);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), mapped_(std::exchange(other.mapped_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

PageMemory::~PageMemory() {
  if (mapped_ > 0) {
    ::munmap(bytes_.data(), mapped_);
  }
}

void AdviseReadAhead(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    const std::span<std::byte> pages = WholePages(bytes);
    ::madvise(pages.data(), pages.size(), MADV_WILLNEED);
  }
}

bool PopulatePages(std::span<std::byte> bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;  // headers may be older than the running system
#endif
  const std::span<std::byte> pages = WholePages(bytes);
  return pages.empty() || ::madvise(pages.data(), pages.size(), kPopulate) == 0;
}

void ReleasePages(std::span<const std::byte> bytes) {
  if (const std::span<std::byte> pages = InnerPages(bytes); !pages.empty()) {
    ::munlock(pages.data(), pages.size());
    ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
  }
}

void SetPagesApart(std::span<const std::byte> bytes) {
  if (const std::span<std::byte> pages = InnerPages(bytes); !pages.empty()) {
    ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
    ::madvise(pages.data(), pages.size(), MADV_RANDOM);
  }
}

void TouchPages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::span<std::byte> pages = WholePages(bytes);
  for (std::size_t i = 0; i < pages.size(); i += page) {
    static_cast<void>(*static_cast<const volatile std::byte*>(pages.data() + i));
  }
}

Status LockPages(std::span<const std::byte> bytes, std::int64_t total, std::string_view what) {
  const std::span<std::byte> pages = WholePages(bytes);
  if (bytes.empty() || ::mlock2(pages.data(), pages.size(), MLOCK_ONFAULT) == 0) return {};
  const int error = errno;
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found =
      limit.rlim_cur == RLIM_INFINITY ? "none" : fmt::format("{} bytes", limit.rlim_cur);
  return MakeError(ErrorCode::kOutOfMemory,
                   "cannot lock {} in memory ({}): expected a limit of at least {} bytes "
                   "(RLIMIT_MEMLOCK, ulimit -l), found {}",
                   what, std::strerror(error), total, found);
}

std::optional<std::int64_t> AvailableMemory(const std::filesystem::path& root) {
  return ReadProcField(root / "proc/meminfo", "MemAvailable:");
}

std::int64_t SwapBytes(const std::filesystem::path& root) {
  return ReadProcField(root / "proc/meminfo", "SwapTotal:").value_or(0);
}

std::int64_t SwappedBytes(const std::filesystem::path& root) {
  return ReadProcField(root / "proc/self/status", "VmSwap:").value_or(0);
}

std::int64_t BytesInHugePages(std::span<const std::byte> bytes) {
  return SumOfMappings({&bytes, 1}, {"AnonHugePages:", "Private_Hugetlb:"});
}

std::int64_t ResidentBytes(std::span<const std::span<const std::byte>> mappings) {
  return SumOfMappings(mappings, {"Rss:", "Private_Hugetlb:"});
}

}  // namespace fathom
