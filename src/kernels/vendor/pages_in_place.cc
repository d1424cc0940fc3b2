#include "kernels/vendor/pages_in_place.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace fathom::kernels {
namespace {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

std::uintptr_t PageBytes() { return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// Returns the pages of all pieces: ranges in ascending order that neither overlap nor touch.
std::vector<Range> PagesOf(std::span<const std::span<const std::byte>> pieces) {
  const std::uintptr_t page = PageBytes();
  std::vector<Range> pages;
  for (const std::span<const std::byte> piece : pieces) {
    if (piece.empty()) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.data());
    pages.push_back({begin / page * page, (begin + piece.size() + page - 1) / page * page});
  }
  std::ranges::sort(pages, {}, &Range::begin);
  std::vector<Range> merged;
  for (const Range& one : pages) {
    if (!merged.empty() && one.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, one.end);
    } else {
      merged.push_back(one);
    }
  }
  return merged;
}

}  // namespace

PagesInPlace::~PagesInPlace() {
  for (const auto& [begin, end] : ranges_) api_.unregister_host(begin);
}

bool PagesInPlace::IsPossible() {
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const std::size_t bytes = PageBytes();
  void* const page = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (page == MAP_FAILED) return false;
  const bool is_possible = api_.register_host(page, bytes, flags_) == 0;
  void* on_device = nullptr;
  const bool has_address =
      is_possible && api_.address_of_host(&on_device, page, 0) == 0 && on_device == page;
  if (is_possible) api_.unregister_host(page);
  ::munmap(page, bytes);
  return has_address;
}

int PagesInPlace::Add(std::span<const std::span<const std::byte>> pieces) {
  for (const Range& pages : PagesOf(pieces)) {
    auto* next = reinterpret_cast<std::byte*>(pages.begin);
    auto* const end = reinterpret_cast<std::byte*>(pages.end);
    while (next < end) {
      const auto after = ranges_.upper_bound(next);
      if (after != ranges_.begin() && std::prev(after)->second > next) {
        next = std::prev(after)->second;  // registered already
        continue;
      }
      std::byte* const until = after == ranges_.end() ? end : std::min(end, after->first);
      if (const int error = Register(next, until); error != 0) return error;
      next = until;
    }
  }
  return 0;
}

int PagesInPlace::Register(std::byte* begin, std::byte* end) {
  const int error = api_.register_host(begin, static_cast<std::size_t>(end - begin), flags_);
  if (error == 0) ranges_[begin] = end;
  return error;
}

}  // namespace fathom::kernels
