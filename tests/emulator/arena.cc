#include "tests/emulator/arena.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/integer_math.h"
#include "base/result.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace fathom::kernels::emulator {
namespace {

constexpr std::int64_t kAlignment = 256;
// AddressSanitizer reports reads and writes between the end of an allocation and the next page.
constexpr std::int64_t kGap = 256;

std::int64_t TakenBytes(std::int64_t bytes) { return RoundUp(bytes, kAlignment) + kGap; }

// Returns the addresses for the most allocations that `bytes` allow, each with a partial page.
std::int64_t MostAddresses(std::int64_t bytes, std::int64_t page_bytes) {
  return RoundUp(bytes, page_bytes) + bytes / TakenBytes(1) * page_bytes;
}

}  // namespace

Arena::Arena(std::int64_t bytes)
    : page_bytes_(::sysconf(_SC_PAGESIZE)),
      addresses_(MostAddresses(bytes, page_bytes_)),
      free_bytes_(bytes / kAlignment * kAlignment) {
  free_[0] = MostAddresses(bytes, page_bytes_);
}

// Unpoisons the memory, because other memory may get these addresses.
Arena::~Arena() {
  ASAN_UNPOISON_MEMORY_REGION(addresses_.address(), static_cast<std::size_t>(used_end_));
}

std::byte* Arena::Allocate(std::int64_t bytes) {
  const std::int64_t whole = RoundUp(TakenBytes(bytes), page_bytes_);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= whole; });
  if (TakenBytes(bytes) > free_bytes_ || found == free_.end()) return nullptr;
  const std::int64_t offset = found->first;
  const std::int64_t rest = found->second - whole;
  free_.erase(found);
  if (rest > 0) {
    free_[offset + whole] = rest;
  }
  allocated_[offset] = {bytes, whole};
  free_bytes_ -= TakenBytes(bytes);
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
  const auto [offset, allocation] = *found;
  const auto freed = free_.emplace(offset, allocation.addresses).first;
  ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(allocation.addresses));
  free_bytes_ += TakenBytes(allocation.bytes);
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

std::span<std::byte> Arena::used() const {
  return {addresses_.address(), static_cast<std::size_t>(used_end_)};
}

bool Arena::HasUsed(const std::byte* address) const {
  return address >= addresses_.address() && address < addresses_.address() + used_end_;
}

void Arena::Allow(std::span<std::byte> pages, ReservedAddresses::Access access) {
  addresses_.Allow(pages.data() - addresses_.address(), std::ssize(pages), access);
}

std::string Arena::Describe(const std::byte* address) const {
  const std::int64_t offset = address - addresses_.address();
  const auto next = allocated_.upper_bound(offset);
  if (next != allocated_.begin()) {
    const auto& [first, allocation] = *std::prev(next);
    if (offset < first + allocation.addresses) {
      return fmt::format("byte {} of an allocation of {} bytes", offset - first, allocation.bytes);
    }
  }
  return fmt::format("byte {} of the device's memory, where nothing is allocated", offset);
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

}  // namespace fathom::kernels::emulator
