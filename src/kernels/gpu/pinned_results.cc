#include "kernels/gpu/pinned_results.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/integer_math.h"

namespace fathom::kernels {
namespace {

constexpr std::int64_t kCopyAlignment = 64;  // alignment of copies in pinned memory
constexpr std::size_t kCopies = 256;         // copies for which there is room without allocating

}  // namespace

Status PinnedResults::Allocate(GpuDriver& driver) {
  Result<std::unique_ptr<Buffer>> memory = driver.Allocate(kBytes, MemoryKind::kShared);
  if (!memory) return Unexpected(memory.error());
  memory_ = *std::move(memory);
  copies_.reserve(kCopies);
  return {};
}

void PinnedResults::Download(GpuDriver& driver, std::span<std::byte> to, const void* from,
                             std::uint64_t ticket) {
  const auto* source = static_cast<const std::byte*>(from);
  while (!to.empty()) {
    if (used_ == kBytes) {
      if (!driver.Synchronize()) return Drop();
      Deliver(std::numeric_limits<std::uint64_t>::max());
    }
    const std::size_t n = std::min(to.size(), static_cast<std::size_t>(kBytes - used_));
    std::byte* const pinned = memory_->address() + used_;
    driver.Download({pinned, n}, source);
    copies_.push_back({to.first(n), pinned, ticket});
    used_ += RoundUp(static_cast<std::int64_t>(n), kCopyAlignment);
    to = to.subspan(n);
    source += n;
  }
}

void PinnedResults::Deliver(std::uint64_t ticket) {
  const auto end =
      std::ranges::find_if(copies_, [&](const Copy& copy) { return copy.ticket > ticket; });
  for (auto copy = copies_.begin(); copy != end; ++copy) {
    std::memcpy(copy->to.data(), copy->pinned, copy->to.size());
  }
  copies_.erase(copies_.begin(), end);
  if (copies_.empty()) used_ = 0;
}

void PinnedResults::Drop() {
  copies_.clear();
  used_ = 0;
}

}  // namespace fathom::kernels
