#include "kernels/emulator/arena.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/integer_math.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace fathom::emulator {
namespace {

constexpr std::int64_t kAlignment = 256;
// AddressSanitizer reports who reads or writes in the gap behind an allocation.
constexpr std::int64_t kGap = 256;

}  // namespace

Arena::Arena(std::int64_t bytes) : addresses_(bytes), bytes_(bytes / kAlignment * kAlignment) {
  free_[0] = bytes_;
}

// Other memory may get these addresses.
Arena::~Arena() {
  ASAN_UNPOISON_MEMORY_REGION(addresses_.address(), static_cast<std::size_t>(used_end_));
}

std::byte* Arena::Allocate(std::int64_t bytes) {
  const std::int64_t whole = RoundUp(bytes, kAlignment) + kGap;
  const auto found =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= whole; });
  if (found == free_.end()) return nullptr;
  const std::int64_t offset = found->first;
  const std::int64_t rest = found->second - whole;
  free_.erase(found);
  if (rest > 0) {
    free_[offset + whole] = rest;
  }
  allocated_[offset] = whole;
  std::byte* const memory = addresses_.address() + offset;
  ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
  ASAN_POISON_MEMORY_REGION(memory + bytes, static_cast<std::size_t>(whole - bytes));
  const std::int64_t used_before = used_end_;
  used_end_ = std::max(used_end_, offset + whole);
  if (offset < used_before) {
    const Opening opening(*this);
    std::memset(memory, 0, static_cast<std::size_t>(std::min(bytes, used_before - offset)));
  }
  return memory;
}

void Arena::Free(std::byte* memory) {
  const auto found = allocated_.find(memory - addresses_.address());
  Check(found != allocated_.end(), "memory of an emulated device is freed that was not allocated");
  const auto [freed, unused] = free_.insert(*found);
  ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(found->second));
  allocated_.erase(found);
  const auto next = std::next(freed);
  if (next != free_.end() && freed->first + freed->second == next->first) {
    freed->second += next->second;
    free_.erase(next);
  }
  if (freed != free_.begin()) {
    const auto before = std::prev(freed);
    if (before->first + before->second == freed->first) {
      before->second += freed->second;
      free_.erase(freed);
    }
  }
}

std::int64_t Arena::free_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [offset, free] : free_) {
    bytes += free;
  }
  return bytes;
}

Arena::Opening::Opening(Arena& arena) : arena_(arena) {
  if (arena_.n_openings_++ == 0) {
    arena_.addresses_.Open(arena_.used_end_);
  }
}

Arena::Opening::~Opening() {
  if (--arena_.n_openings_ == 0) {
    arena_.addresses_.Close(arena_.used_end_);
  }
}

}  // namespace fathom::emulator
